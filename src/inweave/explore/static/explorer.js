// @ts-check
/**
 * The explorer: a network's prompt, heads and curves, layer by layer.
 *
 * One module without dependencies, used in two places: inlined in a page (with `staticModel`) and in a
 * notebook (with anywidget's model). What it shows arrives as one value, the payload that
 * `inweave/explore/payload.py` writes; everything else is derived here. Text from programs enters the
 * document as text nodes only.
 *
 * A "position" is a state of one network: 0 is the input, then one per executed layer, and one for
 * the skip around a module where there is one. Its "depth" is the number of attention layers executed
 * so far, so a pointwise layer or a skip has the depth of the attention layer before it. A "place" is
 * a stop of the scrubber: with one network a position, with several a position in each.
 */

/**
 * @typedef {{dtype: "float64" | "float32" | "int32", shape: number[], data: string}} Packed
 * @typedef {{name: string, label: string, rows: number, cols: number, start: number}} Block
 * @typedef {{from: number, at: number, c: number, rows: number, cols: number,
 *   shift?: [number, number, number], dense?: number}} Piece
 * @typedef {{text: string, pieces: Piece[]}} Part
 * @typedef {{lines: [string, string][],
 *   parts: {query: Part, key: Part, value: Part} | null}} Head
 * @typedef {{name: string, where: string, units: number, note: string, log: boolean,
 *   x: (number | null)[], net: (number | null)[], true?: (number | null)[]}} Curve
 * @typedef {{kind: "attention" | "pointwise", skip: boolean, heads?: Head[], functions?: Curve[],
 *   units?: number}} Layer
 * @typedef {{layer: number} | {repeat: number, skip: boolean, body: any[]}} Node
 * @typedef {{block: string, rows: number, cols: number, row: number, col: number,
 *   transpose: boolean, diagonal: number, start: number}} Place
 * @typedef {{name: string, kind: string, place: Place, reference: Packed | null}} Output
 * @typedef {{name: string, title: string,
 *   layout: {tokens: number, width: number, blocks: Block[]}, modules: Node[], layers: Layer[],
 *   arrays: Packed[], rounded: boolean, first: Packed, changes: Packed, values: Packed,
 *   positions: number, outputs: Output[], reference: string | null, report: Record<string, any>,
 *   certificate: Record<string, any> | null}} NetworkData
 * @typedef {{version: number, inweave: string, inputs: string, networks: NetworkData[]}} Payload
 * @typedef {{get: (name: string) => any, set: (name: string, value: any) => void,
 *   on: (event: string, action: () => void) => void, save_changes: () => void}} Model
 * @typedef {{node: TreeNode, step: number}} Turn
 * @typedef {{layer: number, skip: boolean, number: number, turns: Turn[]}} Where
 */

const SVG = "http://www.w3.org/2000/svg";

// -- numbers ---------------------------------------------------------------------------------------

/** @param {Packed} packed @returns {Float64Array | Float32Array | Int32Array} */
export function unpack(packed) {
  const text = atob(packed.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  if (packed.dtype === "float64") return new Float64Array(bytes.buffer);
  if (packed.dtype === "float32") return new Float32Array(bytes.buffer);
  return new Int32Array(bytes.buffer);
}

/** A number for people: four significant digits, a true minus sign. @param {number} v */
export function short(v) {
  if (Number.isNaN(v)) return "NaN";
  if (!Number.isFinite(v)) return v > 0 ? "∞" : "−∞";
  if (v === 0) return "0";
  const size = Math.abs(v);
  let text;
  if (size >= 1e5 || size < 1e-3) {
    const [digits, power] = v.toExponential(2).split("e");
    text = `${Number(digits)}e${Number(power)}`;
  } else text = String(Number(v.toPrecision(4)));
  return text.replaceAll("-", "−");
}

/** A node of the tree of modules, with the number of positions it takes. */
class TreeNode {
  /** @param {Node} data @param {TreeNode | null} parent */
  constructor(data, parent) {
    this.parent = parent;
    this.layer = "layer" in data ? data.layer : -1;
    this.repeat = "layer" in data ? 1 : data.repeat;
    this.skip = "layer" in data ? false : data.skip;
    /** @type {TreeNode[]} */
    this.body = "layer" in data ? [] : data.body.map((part) => new TreeNode(part, this));
    this.inner = this.body.reduce((total, part) => total + part.span, 0) + (this.skip ? 1 : 0);
    /** @type {number} */
    this.span = this.layer >= 0 ? 1 : this.repeat * this.inner;
  }
}

/** One network's pass: the state at any position, and what can be derived from all of them. */
export class Track {
  /** @type {Int32Array} */ begins;
  /** @type {Int32Array} */ offsets;
  /** @type {number} */ every;
  /** @type {Float64Array[]} */ checkpoints;
  /** @type {Float64Array} */ largest;
  /** @type {boolean[]} */ tall;
  /** @type {Float64Array[]} */ norms;
  /** @type {boolean[]} */ varies;
  /** @type {Int32Array} */ numbers;
  /** @type {Int32Array} */ depths;
  /** @type {Int32Array} */ skips;
  /** @type {(Float64Array | null)[]} */ distances;

  /** @param {NetworkData} data */
  constructor(data) {
    this.data = data;
    this.tokens = data.layout.tokens;
    this.width = data.layout.width;
    this.blocks = data.layout.blocks;
    this.positions = data.positions;
    this.size = this.tokens * this.width;
    this.first = unpack(data.first);
    this.changes = unpack(data.changes);
    this.values = unpack(data.values);
    this.arrays = data.arrays.map(unpack);
    this.tree = data.modules.map((part) => new TreeNode(part, null));
    this.now = new Float64Array(this.size);
    this.before = new Float64Array(this.size);
    this.at = -2; // nothing shown yet, not even the input
    this.index();
    this.survey();
    this.show(0);
  }

  /** Where each position's changes begin, and where each change's values do. */
  index() {
    const count = this.changes.length / 5;
    this.begins = new Int32Array(this.positions + 1);
    this.offsets = new Int32Array(count + 1);
    for (let i = 0; i < count; i++) {
      this.begins[this.changes[5 * i] + 1]++;
      this.offsets[i + 1] = this.offsets[i] + this.changes[5 * i + 3] * this.changes[5 * i + 4];
    }
    for (let k = 0; k < this.positions; k++) this.begins[k + 1] += this.begins[k];
  }

  /** Apply the changes of one position to a state. @param {Float64Array} H @param {number} k */
  apply(H, k) {
    for (let i = this.begins[k]; i < this.begins[k + 1]; i++) {
      const [, row, col, rows, cols] = this.rectangle(i);
      let from = this.offsets[i];
      for (let r = row; r < row + rows; r++) {
        const line = r * this.width;
        for (let c = col; c < col + cols; c++) H[line + c] = this.values[from++];
      }
    }
  }

  /** @param {number} i @returns {number[]} position, row, column, rows, columns */
  rectangle(i) {
    const c = this.changes;
    return [c[5 * i], c[5 * i + 1], c[5 * i + 2], c[5 * i + 3], c[5 * i + 4]];
  }

  /** One pass over all positions: scales, norms, distances, and states to start scrubbing from. */
  survey() {
    const { positions, blocks } = this;
    this.every = Math.max(32, Math.ceil((positions * this.size * 8) / 6.4e7));
    this.checkpoints = [];
    this.largest = new Float64Array(blocks.length);
    this.tall = blocks.map(() => false);
    this.norms = blocks.map(() => new Float64Array(positions));
    this.varies = blocks.map(() => false);
    this.numbers = new Int32Array(positions);
    this.depths = new Int32Array(positions);
    this.skips = new Int32Array(positions);
    this.number(this.tree, 1);
    const references = this.data.outputs.map((o) => (o.reference ? unpack(o.reference) : null));
    this.distances = references.map((wanted) => (wanted ? new Float64Array(positions) : null));
    const owner = new Int32Array(this.width);
    blocks.forEach((b, i) => owner.fill(i, b.start, b.start + b.cols));
    const H = Float64Array.from(this.first);
    for (let k = 0; k < positions; k++) {
      this.apply(H, k);
      if (k % this.every === 0) this.checkpoints.push(H.slice());
      const touched = new Set();
      if (k === 0) blocks.forEach((_, i) => touched.add(i));
      for (let i = this.begins[k]; i < this.begins[k + 1]; i++) {
        touched.add(owner[this.changes[5 * i + 2]]);
      }
      for (let b = 0; b < blocks.length; b++) {
        if (!touched.has(b)) {
          this.norms[b][k] = this.norms[b][k - 1];
          continue;
        }
        if (k) this.varies[b] = true;
        let sum = 0;
        for (let r = 0; r < this.tokens; r++) {
          for (let c = blocks[b].start; c < blocks[b].start + blocks[b].cols; c++) {
            const v = H[r * this.width + c];
            sum += v * v;
            const size = Math.abs(v);
            if (size > this.largest[b] && size < Infinity) this.largest[b] = size;
            if (v !== 0 && r >= blocks[b].rows) this.tall[b] = true;
          }
        }
        this.norms[b][k] = Math.sqrt(sum);
      }
      this.data.outputs.forEach((output, i) => {
        const [wanted, distances] = [references[i], this.distances[i]];
        if (!wanted || !distances) return;
        const found = this.read(output.place, H);
        let sum = 0;
        for (let j = 0; j < wanted.length; j++) sum += (found[j] - wanted[j]) ** 2;
        distances[k] = Math.sqrt(sum);
      });
    }
  }

  /** Count at each position the layers executed, the attention layers among them, and the skips since
   *  the last one. @returns {number} @param {TreeNode[]} nodes @param {number} at */
  number(nodes, at) {
    const count = (/** @type {boolean} */ layer, /** @type {boolean} */ deep) => {
      this.numbers[at] = this.numbers[at - 1] + Number(layer);
      this.depths[at] = this.depths[at - 1] + Number(deep);
      this.skips[at] = layer ? 0 : this.skips[at - 1] + 1;
      at++;
    };
    for (const node of nodes) {
      if (node.layer >= 0) count(true, this.data.layers[node.layer].kind === "attention");
      for (let t = 0; node.layer < 0 && t < node.repeat; t++) {
        at = this.number(node.body, at);
        if (node.skip) count(false, false);
      }
    }
    return at;
  }

  /** How many attention layers run in all. */
  get depth() {
    return this.depths[this.positions - 1];
  }

  /** The positions of a depth, as the first of them and the one after the last. @param {number} depth
   *  @returns {[number, number]} */
  range(depth) {
    return [bisect(this.depths, depth), bisect(this.depths, depth + 1)];
  }

  /** The value at a place, in its own rows and columns. @param {Place} place
   *  @param {Float64Array} H */
  read(place, H) {
    const [rows, cols] = place.diagonal ? [1, 1] : [place.rows, place.cols];
    const out = new Float64Array(rows * cols);
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < cols; c++) out[r * cols + c] = H[this.cell(place, r, c)];
    }
    return out;
  }

  /** The entry of the prompt that holds one entry of an answer. @param {Place} place
   *  @param {number} r @param {number} c */
  cell(place, r, c) {
    const [i, j] = place.transpose ? [c, r] : [r, c];
    return (place.row + i) * this.width + place.start + place.col + j;
  }

  /** @param {number} k @param {Float64Array} H */
  load(k, H) {
    const from = Math.floor(k / this.every);
    H.set(this.checkpoints[from]);
    for (let p = from * this.every + 1; p <= k; p++) this.apply(H, p);
  }

  /** Make `now` the state at a position and `before` the one before it. @param {number} k */
  show(k) {
    if (k === this.at) return;
    if (k === this.at + 1) this.before.set(this.now);
    else this.load(Math.max(0, k - 1), this.before);
    this.now.set(this.before);
    if (k > 0) this.apply(this.now, k);
    this.at = k;
  }

  /** The largest magnitude in each block of the current state. */
  largestNow() {
    return Float64Array.from(this.blocks, (b) => {
      let most = 0;
      for (let r = 0; r < this.tokens; r++) {
        for (let c = b.start; c < b.start + b.cols; c++) {
          const size = Math.abs(this.now[r * this.width + c]);
          if (size > most && size < Infinity) most = size;
        }
      }
      return most;
    });
  }

  /** One entry's value at every position. @param {number} entry */
  history(entry) {
    const row = Math.floor(entry / this.width);
    const col = entry % this.width;
    const out = new Float64Array(this.positions).fill(this.first[entry]);
    for (let i = 0; i < this.changes.length / 5; i++) {
      const [k, top, left, rows, cols] = this.rectangle(i);
      if (row < top || row >= top + rows || col < left || col >= left + cols) continue;
      out.fill(this.values[this.offsets[i] + (row - top) * cols + col - left], k);
    }
    return out;
  }

  /** Which layer stands at a position, in which steps of which modules. @param {number} k
   *  @returns {Where} */
  locate(k) {
    /** @type {Where} */
    const where = { layer: -1, skip: false, number: this.numbers[k], turns: [] };
    if (k === 0) return where;
    let rest = k - 1;
    let nodes = this.tree;
    for (;;) {
      const node = nodes.find((n) => rest < n.span || ((rest -= n.span), false));
      if (!node) return where;
      if (node.layer >= 0) {
        where.layer = node.layer;
        return where;
      }
      const step = Math.floor(rest / node.inner);
      where.turns.push({ node, step });
      rest -= step * node.inner;
      if (node.skip && rest === node.inner - 1) {
        where.skip = true;
        return where;
      }
      nodes = node.body;
    }
  }

  /** The position of a node, in the steps that the modules around it stand at.
   *  @param {TreeNode} node @param {Turn[]} turns @returns {number} */
  positionOf(node, turns) {
    const siblings = node.parent ? node.parent.body : this.tree;
    let at = 0;
    for (const other of siblings) {
      if (other === node) break;
      at += other.span;
    }
    if (!node.parent) return 1 + at;
    const parent = node.parent;
    const turn = turns.find((t) => t.node === parent);
    return this.positionOf(parent, turns) + (turn ? turn.step * parent.inner : 0) + at;
  }

  /** A position's name in a link: the number of executed layers, and `s` for each skip after them.
   *  @param {number} k */
  key(k) {
    return `${this.numbers[k]}${"s".repeat(this.skips[k])}`;
  }

  /** @param {string} key */
  fromKey(key) {
    for (let k = 0; k < this.positions; k++) if (this.key(k) === key) return k;
    const number = parseInt(key, 10);
    return Number.isFinite(number) && number > 0 ? this.positions - 1 : 0;
  }

  /** `H W + B` for one projection. @param {Part} part @param {Float64Array} H */
  project(part, H) {
    const { tokens, width } = this;
    const out = new Float64Array(this.size);
    const touched = new Uint8Array(width);
    for (const p of part.pieces) {
      const dense = p.dense === undefined ? null : this.arrays[p.dense];
      const rows = p.from < 0 ? p.rows : tokens;
      if (p.shift) {
        const [row, col, size] = p.shift;
        for (let j = 0; j < size; j++) {
          const to = p.at + col + j;
          touched[to] = 1;
          if (p.from < 0) out[(row + j) * width + to] += p.c;
          else {
            const source = p.from + row + j;
            for (let r = 0; r < rows; r++) out[r * width + to] += p.c * H[r * width + source];
          }
        }
        continue;
      }
      for (let j = 0; j < p.cols; j++) touched[p.at + j] = 1;
      for (let r = 0; r < rows; r++) {
        for (let j = 0; j < p.cols; j++) {
          let sum = 0;
          if (p.from < 0) sum = dense ? dense[r * p.cols + j] : 1;
          else {
            for (let i = 0; i < p.rows; i++) {
              sum += H[r * width + p.from + i] * (dense ? dense[i * p.cols + j] : 1);
            }
          }
          out[r * width + p.at + j] += p.c * sum;
        }
      }
    }
    return { out, touched };
  }

  /** The parts of one head on the state before the layer. @param {Head} head
   *  @returns {Record<string, Matrix> | null} */
  parts(head) {
    if (!head.parts) return null;
    const H = this.before;
    const q = this.project(head.parts.query, H);
    const k = this.project(head.parts.key, H);
    const v = this.project(head.parts.value, H);
    const inner = columns(this.width, (c) => q.touched[c] || k.touched[c]);
    const dest = columns(this.width, (c) => v.touched[c]);
    const Q = crop(q.out, this.tokens, this.width, inner);
    const K = crop(k.out, this.tokens, this.width, inner).transposed();
    const V = crop(v.out, this.tokens, this.width, dest);
    const QK = Q.times(K);
    const KV = K.times(V);
    return { Q, K, V, QK, KV, out: Q.times(KV), };
  }
}

/** The first index whose entry is at least `least`. @param {Int32Array} sorted @param {number} least */
function bisect(sorted, least) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < least) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The scrubber's stops.
 *
 * `depth` and `at` say for each place how many attention layers have been executed, and where each
 * network stands. Networks go from depth to depth together, by number or by share of their own
 * depth; one with more positions at a depth moves through them while the others wait at their last.
 *  @typedef {{depth: Int32Array, at: Int32Array[]}} Timeline
 *  @param {Track[]} tracks @param {"layer" | "share"} align @returns {Timeline} */
function timeline(tracks, align) {
  const most = Math.max(...tracks.map((t) => t.depth));
  /** @type {number[]} */
  const depth = [];
  const at = tracks.map(() => /** @type {number[]} */ ([]));
  const reached = tracks.map(() => -1);
  for (let d = 0; d <= most; d++) {
    const ranges = tracks.map((track, i) => {
      const own = align === "share" && most ? Math.round((d / most) * track.depth) : Math.min(d, track.depth);
      const [from, to] = track.range(own);
      const first = own > reached[i] ? from : to - 1;
      reached[i] = own;
      return [first, to - 1];
    });
    const steps = Math.max(...ranges.map(([first, last]) => last - first));
    for (let j = 0; j <= steps; j++) {
      depth.push(d);
      ranges.forEach(([first, last], i) => at[i].push(Math.min(first + j, last)));
    }
  }
  return { depth: Int32Array.from(depth), at: at.map((list) => Int32Array.from(list)) };
}

/** A small matrix; `names` are the columns of the prompt that its columns stand for, if any. */
class Matrix {
  /** @param {number} rows @param {number} cols @param {Float64Array} values
   *  @param {number[] | null} [names] */
  constructor(rows, cols, values, names = null) {
    this.rows = rows;
    this.cols = cols;
    this.values = values;
    this.names = names;
  }

  transposed() {
    const out = new Float64Array(this.values.length);
    for (let r = 0; r < this.rows; r++) {
      for (let c = 0; c < this.cols; c++) out[c * this.rows + r] = this.values[r * this.cols + c];
    }
    return new Matrix(this.cols, this.rows, out);
  }

  /** @param {Matrix} other */
  times(other) {
    const out = new Float64Array(this.rows * other.cols);
    for (let r = 0; r < this.rows; r++) {
      for (let i = 0; i < this.cols; i++) {
        const v = this.values[r * this.cols + i];
        if (v === 0) continue;
        for (let c = 0; c < other.cols; c++) {
          out[r * other.cols + c] += v * other.values[i * other.cols + c];
        }
      }
    }
    return new Matrix(this.rows, other.cols, out, other.names);
  }

  /** "0", "I₄" (zeros around it allowed) or "" @returns {string} */
  nature() {
    let ones = 0;
    for (let r = 0; r < this.rows; r++) {
      for (let c = 0; c < this.cols; c++) {
        const v = this.values[r * this.cols + c];
        if (v === 0) continue;
        if (v !== 1 || r !== c || ones !== r) return "";
        ones++;
      }
    }
    if (ones === 0) return "0";
    return ones === Math.min(this.rows, this.cols) || ones > 1 ? `I${subscript(ones)}` : "";
  }
}

/** @param {number} n @param {string} what */
function count(n, what) {
  return `${n} ${what}${n === 1 ? "" : "s"}`;
}

/** @param {number} n */
function subscript(n) {
  return String(n).replace(/\d/g, (d) => "₀₁₂₃₄₅₆₇₈₉"[Number(d)]);
}

/** @param {number} width @param {(c: number) => any} keep */
function columns(width, keep) {
  const out = [];
  for (let c = 0; c < width; c++) if (keep(c)) out.push(c);
  return out;
}

/** @param {Float64Array} values @param {number} rows @param {number} width
 *  @param {number[]} kept */
function crop(values, rows, width, kept) {
  const out = new Float64Array(rows * kept.length);
  for (let r = 0; r < rows; r++) {
    kept.forEach((c, j) => (out[r * kept.length + j] = values[r * width + c]));
  }
  return new Matrix(rows, kept.length, out, kept);
}

// -- colours ---------------------------------------------------------------------------------------

/** Blue for negative, orange for positive: told apart by every common kind of colour blindness. */
const STOPS = {
  light: ["#08306b", "#2166ac", "#6aaed6", "#c6dbef", "#f7f7f5", "#fddbb0", "#f2a04b", "#c96210", "#7f3b08"],
  dark: ["#b9ddff", "#6db3f2", "#2f7dc4", "#214a73", "#1d232b", "#6b4219", "#bf6d18", "#f2a65a", "#ffdcb3"],
};
const LINES = {
  light: ["#0072b2", "#d55e00", "#009e73", "#b05a8c", "#8a6d00", "#3f97c9", "#666666"],
  dark: ["#56b4e9", "#f2994a", "#2fc79a", "#e08fc0", "#e3c94b", "#8fb8ff", "#a3a9b1"],
};
const HALF = 255;

/** @param {string} hex @returns {[number, number, number]} */
function rgb(hex) {
  const n = parseInt(hex.slice(1), 16);
  return [n >> 16, (n >> 8) & 255, n & 255];
}

/** @param {"light" | "dark"} theme @returns {Uint8ClampedArray} 511 colours, then one for NaN */
function table(theme) {
  const stops = STOPS[theme].map(rgb);
  const out = new Uint8ClampedArray((2 * HALF + 2) * 4);
  for (let i = 0; i <= 2 * HALF; i++) {
    const t = (i / (2 * HALF)) * (stops.length - 1);
    const low = Math.min(Math.floor(t), stops.length - 2);
    for (let ch = 0; ch < 3; ch++) {
      out[4 * i + ch] = stops[low][ch] + (t - low) * (stops[low + 1][ch] - stops[low][ch]);
    }
    out[4 * i + 3] = 255;
  }
  out.set(theme === "dark" ? [224, 96, 200, 255] : [190, 30, 150, 255], (2 * HALF + 1) * 4);
  return out;
}

/** The row of the colour table for a value. @param {number} v @param {number} scale */
function shade(v, scale) {
  if (Number.isNaN(v)) return 2 * HALF + 1;
  if (v === 0 || !(scale > 0)) return HALF;
  return HALF + Math.round(HALF * Math.max(-1, Math.min(1, v / scale)));
}

/** @typedef {{name: "light" | "dark", colours: Uint8ClampedArray, lines: string[], ink: string,
 *   soft: string, faint: string, line: string, panel: string, accent: string, grid: string,
 *   font: string, mono: string}} Theme */

/** @param {HTMLElement} root @param {"light" | "dark"} name @returns {Theme} */
function readTheme(root, name) {
  const style = getComputedStyle(root);
  const get = (/** @type {string} */ key) => style.getPropertyValue(key).trim();
  return {
    name,
    colours: table(name),
    lines: LINES[name],
    ink: get("--ink"),
    soft: get("--soft"),
    faint: get("--faint"),
    line: get("--line"),
    panel: get("--panel"),
    accent: get("--accent"),
    grid: get("--grid"),
    font: style.fontFamily,
    mono: get("--mono"),
  };
}

// -- painting: one drawing, two surfaces -------------------------------------------------------------

/** @typedef {{size?: number, anchor?: "start" | "middle" | "end", colour?: string,
 *   weight?: number, turn?: number, mono?: boolean}} TextStyle */

/** Paints on a canvas. */
class CanvasPainter {
  /** @param {HTMLCanvasElement} canvas @param {number} width @param {number} height
   *  @param {Theme} theme */
  constructor(canvas, width, height, theme) {
    const ratio = Math.max(1, globalThis.devicePixelRatio || 1);
    if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
    if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
    if (canvas.style.width !== `${width}px`) canvas.style.width = `${width}px`;
    if (canvas.style.height !== `${height}px`) canvas.style.height = `${height}px`;
    this.theme = theme;
    this.g = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    this.g.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.g.clearRect(0, 0, width, height);
    this.g.imageSmoothingEnabled = false;
  }

  /** A grid of cells; `pick` names each one's row of the colour table.
   *  @param {number} x @param {number} y @param {number} cell @param {number} rows
   *  @param {number} cols @param {(r: number, c: number) => number} pick */
  cells(x, y, cell, rows, cols, pick) {
    const image = scratch(cols, rows);
    const { data } = image.pixels;
    const { colours } = this.theme;
    let to = 0;
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < cols; c++) {
        const from = 4 * pick(r, c);
        data[to++] = colours[from];
        data[to++] = colours[from + 1];
        data[to++] = colours[from + 2];
        data[to++] = 255;
      }
    }
    image.g.putImageData(image.pixels, 0, 0);
    this.g.drawImage(image.canvas, 0, 0, cols, rows, x, y, cols * cell, rows * cell);
    if (cell < 6) return;
    this.g.fillStyle = this.theme.panel;
    for (let c = 1; c < cols; c++) this.g.fillRect(x + c * cell - 0.5, y, 1, rows * cell);
    for (let r = 1; r < rows; r++) this.g.fillRect(x, y + r * cell - 0.5, cols * cell, 1);
  }

  /** @param {[number, number, number, number][]} boxes @param {string} colour
   *  @param {number} width @param {number[]} [dash] */
  frames(boxes, colour, width, dash = []) {
    this.g.strokeStyle = colour;
    this.g.lineWidth = width;
    this.g.setLineDash(dash);
    this.g.beginPath();
    for (const [x, y, w, h] of boxes) this.g.rect(x, y, w, h);
    this.g.stroke();
    this.g.setLineDash([]);
  }

  /** Small dots, for entries that are exactly zero. @param {[number, number][]} points */
  dots(points) {
    this.g.fillStyle = this.theme.faint;
    for (const [x, y] of points) this.g.fillRect(x - 0.75, y - 0.75, 1.5, 1.5);
  }

  /** @param {number} x @param {number} y @param {string} text @param {TextStyle} style */
  text(x, y, text, style = {}) {
    const { g, theme } = this;
    g.font = `${style.weight ?? 400} ${style.size ?? 11}px ${style.mono ? theme.mono : theme.font}`;
    g.fillStyle = style.colour ?? theme.ink;
    g.textAlign = style.anchor === "middle" ? "center" : style.anchor === "end" ? "right" : "left";
    g.textBaseline = "alphabetic";
    if (!style.turn) {
      g.fillText(text, x, y);
      return;
    }
    g.save();
    g.translate(x, y);
    g.rotate((style.turn * Math.PI) / 180);
    g.fillText(text, 0, 0);
    g.restore();
  }
}

/** @type {{canvas: HTMLCanvasElement, g: CanvasRenderingContext2D, pixels: ImageData} | null} */
let kept = null;

/** A reused image of at least the given size; `pixels` has exactly it.
 *  @param {number} width @param {number} height */
function scratch(width, height) {
  if (!kept) {
    const canvas = document.createElement("canvas");
    const g = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { willReadFrequently: true }));
    kept = { canvas, g, pixels: g.createImageData(1, 1) };
  }
  if (kept.canvas.width < width) kept.canvas.width = width;
  if (kept.canvas.height < height) kept.canvas.height = height;
  if (kept.pixels.width !== width || kept.pixels.height !== height) {
    kept.pixels = kept.g.createImageData(width, height);
  }
  return kept;
}

/** Paints the same things as SVG, for export. */
class SvgPainter {
  /** @param {number} width @param {number} height @param {Theme} theme */
  constructor(width, height, theme) {
    this.theme = theme;
    this.node = svg("svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}` });
    this.node.append(svg("rect", { width, height, fill: theme.panel }));
  }

  /** @param {number} x @param {number} y @param {number} cell @param {number} rows
   *  @param {number} cols @param {(r: number, c: number) => number} pick */
  cells(x, y, cell, rows, cols, pick) {
    const gap = cell < 6 ? 0 : 1;
    const { colours } = this.theme;
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < cols; c++) {
        const i = 4 * pick(r, c);
        const fill = `rgb(${colours[i]},${colours[i + 1]},${colours[i + 2]})`;
        const size = { width: cell - gap, height: cell - gap };
        this.node.append(svg("rect", { x: x + c * cell, y: y + r * cell, ...size, fill }));
      }
    }
  }

  /** @param {[number, number, number, number][]} boxes @param {string} colour
   *  @param {number} width @param {number[]} [dash] */
  frames(boxes, colour, width, dash = []) {
    if (!boxes.length) return;
    const d = boxes.map(([x, y, w, h]) => `M${x} ${y}h${w}v${h}h${-w}z`).join("");
    const style = { fill: "none", stroke: colour, "stroke-width": width };
    this.node.append(svg("path", { d, ...style, "stroke-dasharray": dash.join(" ") || "none" }));
  }

  /** @param {[number, number][]} points */
  dots(points) {
    if (!points.length) return;
    const d = points.map(([x, y]) => `M${x - 0.75} ${y - 0.75}h1.5v1.5h-1.5z`).join("");
    this.node.append(svg("path", { d, fill: this.theme.faint }));
  }

  /** @param {number} x @param {number} y @param {string} text @param {TextStyle} style */
  text(x, y, text, style = {}) {
    const node = svg("text", {
      x,
      y,
      "font-size": style.size ?? 11,
      "font-family": style.mono ? "monospace" : "sans-serif",
      "font-weight": style.weight ?? 400,
      "text-anchor": style.anchor ?? "start",
      fill: style.colour ?? this.theme.ink,
      "xml:space": "preserve",
    });
    if (style.turn) node.setAttribute("transform", `rotate(${style.turn} ${x} ${y})`);
    node.textContent = text;
    this.node.append(node);
  }
}

/** @typedef {CanvasPainter | SvgPainter} Painter */

/** @param {string} name @param {Record<string, string | number>} [attributes] */
function svg(name, attributes = {}) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
  return node;
}

/** An element. Attributes are set as attributes, `text` as text: never as markup.
 *  @template {keyof HTMLElementTagNameMap} K
 *  @param {K} name @param {Record<string, any>} [attributes] @param {(Node2 | string)[]} children
 *  @returns {HTMLElementTagNameMap[K]} */
function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") node.textContent = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) {
      node.setAttribute(key, String(value));
    }
  }
  node.append(...children);
  return node;
}
/** @typedef {globalThis.Node} Node2 */

/** Scroll a row's own list, and nothing else, until the row is seen. @param {HTMLElement} row */
function reveal(row) {
  const list = /** @type {HTMLElement | null} */ (row.closest(".layers"));
  if (!list || list.scrollHeight <= list.clientHeight) return;
  const [a, b] = [row.getBoundingClientRect(), list.getBoundingClientRect()];
  if (a.top < b.top) list.scrollTop += a.top - b.top - 8;
  else if (a.bottom > b.bottom) list.scrollTop += a.bottom - b.bottom + 8;
}

/** A button that shows an icon drawn as a path. @param {string} label @param {string} path
 *  @param {(event: Event) => void} action @param {Record<string, any>} [more] */
function iconButton(label, path, action, more = {}) {
  const icon = svg("svg", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" });
  icon.append(svg("path", { d: path, fill: "currentColor", "fill-rule": "evenodd" }));
  const button = el("button", { type: "button", class: "icon", "aria-label": label, title: label,
    onclick: action, ...more });
  button.append(icon);
  return button;
}

const ICONS = {
  first: "M3 3h2v10H3zM13 3v10L6 8z",
  back: "M11 3v10L4 8z",
  play: "M4 2.5v11L13 8z",
  pause: "M4 3h3v10H4zM9 3h3v10H9z",
  next: "M5 3v10l7-5z",
  last: "M11 3h2v10h-2zM3 3v10l7-5z",
  theme: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM8 3v10A5 5 0 0 1 8 3z",
  help: "M7.2 10.3h1.6v1.7H7.2zM8 3.5c-1.7 0-2.8 1-2.9 2.6h1.6c0-.8.5-1.2 1.3-1.2.7 0 1.2.4 1.2 1 0 .6-.3.9-.9 1.3-.8.5-1.1 1-1.1 1.9v.3h1.6v-.3c0-.5.2-.7.9-1.2.7-.5 1.1-1.1 1.1-2C10.8 4.4 9.7 3.5 8 3.5z",
  save: "M7.2 2h1.6v6.2l2.3-2.3 1.1 1.1L8 11.2 3.8 7l1.1-1.1 2.3 2.3zM3 12.5h10V14H3z",
  less: "M10 3.5v9L5 8z",
  more: "M6 3.5v9L11 8z",
};

// -- heat maps ---------------------------------------------------------------------------------------

/** @typedef {{block: number, x: number, y: number, cell: number, rows: number, cols: number,
 *   binR: number, binC: number, own: number, label: string, turned: boolean, note: string,
 *   w: number, h: number}} Box */

const STRIP_GAP = 9;
const LABEL = 12;

/** Text width, estimated: labels are short and layouts must not wait for fonts.
 *  @param {string} text @param {number} size */
function textWidth(text, size) {
  return [...text].length * size * 0.62;
}

/** @param {string} text @param {number} most */
function clip(text, most) {
  const letters = [...text];
  return letters.length <= most ? text : `${letters.slice(0, most - 1).join("")}…`;
}

/** Where each block is drawn.
 *
 * As a matrix: all blocks side by side on the same rows, while cells stay at least 7 pixels wide.
 * As blocks: one tile each, wrapped like words; a block too large for its tile is drawn in bins, each
 * showing the entry of largest magnitude in it.
 *  @param {Track} track @param {number} width @param {"auto" | "matrix" | "blocks"} view
 *  @param {number} expanded @returns {{boxes: Box[], width: number, height: number, view: string,
 *   binned: boolean}} */
function arrange(track, width, view, expanded) {
  const left = 24;
  const room = width - left - 4 - STRIP_GAP * (track.blocks.length - 1);
  const fit = Math.floor(Math.min(28, room / track.width, 420 / track.tokens));
  const least = view === "matrix" ? 4 : 7;
  if (view === "matrix" || (view === "auto" && fit >= least)) {
    for (let cell = Math.max(fit, least); ; cell--) {
      const plan = arrangeMatrix(track, cell, left); // slanted names may reach further than cells
      if (plan.width <= width || (cell <= least && view === "matrix")) return plan;
      if (cell <= least) break;
    }
  }
  return arrangeBlocks(track, width, expanded);
}

/** @param {Track} track @param {number} cell @param {number} left */
function arrangeMatrix(track, cell, left) {
  const labels = track.blocks.map((b) => clip(b.label, 18));
  const turned = track.blocks.map((b, i) => {
    return textWidth(labels[i], LABEL) > b.cols * cell + STRIP_GAP - 2;
  });
  const rise = Math.max(0, ...labels.map((text, i) => (turned[i] ? textWidth(text, LABEL) : 0)));
  const top = 22 + Math.ceil(rise * 0.62);
  /** @type {Box[]} */
  const boxes = [];
  let x = left;
  let right = 0;
  track.blocks.forEach((b, i) => {
    boxes.push({
      block: i, x, y: top, cell, rows: track.tokens, cols: b.cols, binR: 1, binC: 1, own: b.rows,
      label: labels[i], turned: turned[i], note: "", w: b.cols * cell, h: track.tokens * cell,
    });
    const reach = turned[i]
      ? x + (b.cols * cell) / 2 + textWidth(labels[i], LABEL) * 0.8
      : x + b.cols * cell;
    right = Math.max(right, reach);
    x += b.cols * cell + STRIP_GAP;
  });
  const height = top + track.tokens * cell + 20;
  return { boxes, width: Math.ceil(right) + 4, height, view: "matrix", binned: false };
}

/** @param {Track} track @param {number} width @param {number} expanded */
function arrangeBlocks(track, width, expanded) {
  /** @type {Box[]} */
  const boxes = [];
  let x = 4;
  let y = 0;
  let tallest = 0;
  let widest = 0;
  let binned = false;
  track.blocks.forEach((b, i) => {
    const open = i === expanded;
    const rows = track.tall[i] ? track.tokens : b.rows;
    const [wide, high] = open ? [Math.max(width - 8, b.cols * 9), rows * 14] : [250, 150];
    let binC = 1;
    let binR = 1;
    if (!open) {
      binC = Math.max(1, Math.ceil((b.cols * 5) / wide));
      binR = Math.max(1, Math.ceil((rows * 5) / high));
    }
    const cols = Math.ceil(b.cols / binC);
    const lines = Math.ceil(rows / binR);
    const cell = Math.max(open ? 9 : 4, Math.min(18, Math.floor(Math.min(wide / cols, high / lines))));
    const label = clip(b.label, 24);
    const note = `${b.rows} × ${b.cols}`;
    const w = cols * cell;
    const h = lines * cell;
    const span = Math.max(w, textWidth(label, LABEL), textWidth(note, 10)) + 18;
    if (x > 4 && (x + span > width || open)) {
      x = 4;
      y += tallest;
      tallest = 0;
    }
    binned ||= binC > 1 || binR > 1;
    boxes.push({ block: i, x, y: y + 34, cell, rows: lines, cols, binR, binC, w, h, label, note,
      own: Math.ceil(b.rows / binR), turned: false });
    widest = Math.max(widest, x + span);
    tallest = Math.max(tallest, h + 34 + 18);
    x += span;
    if (open) x = width;
  });
  return { boxes, width: Math.max(widest, 120), height: y + tallest, view: "blocks", binned };
}

/** The entry of a box's cell with the largest magnitude. @param {Track} track @param {Box} box
 *  @param {number} r @param {number} c */
function entryAt(track, box, r, c) {
  const b = track.blocks[box.block];
  if (box.binR === 1 && box.binC === 1) return r * track.width + b.start + c;
  let best = -1;
  let size = -1;
  const bottom = Math.min((r + 1) * box.binR, track.tokens);
  for (let i = r * box.binR; i < bottom; i++) {
    for (let j = c * box.binC; j < Math.min((c + 1) * box.binC, b.cols); j++) {
      const entry = i * track.width + b.start + j;
      const v = Math.abs(track.now[entry]);
      if (v > size || Number.isNaN(v)) {
        best = entry;
        size = Number.isNaN(v) ? Infinity : v;
      }
    }
  }
  return best;
}

/** Whether an entry, or any in its bin, differs from the state before.
 *  @param {Track} track @param {Box} box @param {number} r @param {number} c */
function changedAt(track, box, r, c) {
  const b = track.blocks[box.block];
  const bottom = Math.min((r + 1) * box.binR, track.tokens);
  for (let i = r * box.binR; i < bottom; i++) {
    for (let j = c * box.binC; j < Math.min((c + 1) * box.binC, b.cols); j++) {
      const entry = i * track.width + b.start + j;
      if (!Object.is(track.now[entry], track.before[entry])) return true;
    }
  }
  return false;
}

/** Draw the prompt. @param {Painter} p @param {Track} track @param {ReturnType<arrange>} plan
 *  @param {{scale: "block" | "global", fit: boolean, marks: boolean, cursor: number,
 *   pins: number[]}} options */
function paintPrompt(p, track, plan, options) {
  const { theme } = p;
  const largest = options.fit ? track.largestNow() : track.largest;
  const global = Math.max(...largest, 0);
  const moved = new Set();
  for (let i = track.begins[track.at]; i < track.begins[track.at + 1]; i++) {
    const col = track.changes[5 * i + 2];
    moved.add(track.blocks.findIndex((b) => col >= b.start && col < b.start + b.cols));
  }
  for (const box of plan.boxes) {
    const b = track.blocks[box.block];
    const scale = options.scale === "global" ? global : largest[box.block];
    p.cells(box.x, box.y, box.cell, box.rows, box.cols, (r, c) =>
      shade(track.now[entryAt(track, box, r, c)], scale),
    );
    if (box.cell >= 12) {
      /** @type {[number, number][]} */
      const zeros = [];
      for (let r = 0; r < Math.min(box.rows, box.own); r++) {
        for (let c = 0; c < box.cols; c++) {
          if (track.now[entryAt(track, box, r, c)] === 0) {
            zeros.push([box.x + (c + 0.5) * box.cell, box.y + (r + 0.5) * box.cell]);
          }
        }
      }
      p.dots(zeros);
    }
    if (box.own < box.rows) {
      p.frames([[box.x, box.y, box.w, box.h]], theme.line, 1, [2, 3]);
    }
    p.frames([[box.x - 0.5, box.y - 0.5, box.w + 1, box.own * box.cell + 1]], theme.soft, 1);
    const active = moved.has(box.block) && options.marks;
    if (active) {
      /** @type {[number, number, number, number][]} */
      const marks = [];
      if (box.cell >= 7) {
        for (let r = 0; r < box.rows; r++) {
          for (let c = 0; c < box.cols; c++) {
            if (!changedAt(track, box, r, c)) continue;
            marks.push([box.x + c * box.cell + 1.5, box.y + r * box.cell + 1.5, box.cell - 3, box.cell - 3]);
          }
        }
        p.frames(marks, theme.ink, box.cell >= 12 ? 1.5 : 1);
      } else {
        for (let i = track.begins[track.at]; i < track.begins[track.at + 1]; i++) {
          const [, row, col, rows, cols] = track.rectangle(i);
          if (col < b.start || col >= b.start + b.cols) continue;
          const x0 = Math.floor((col - b.start) / box.binC);
          const x1 = Math.ceil((col - b.start + cols) / box.binC);
          const y0 = Math.floor(row / box.binR);
          const y1 = Math.min(box.rows, Math.ceil((row + rows) / box.binR));
          marks.push([box.x + x0 * box.cell, box.y + y0 * box.cell, (x1 - x0) * box.cell, (y1 - y0) * box.cell]);
        }
        p.frames(marks, theme.ink, 1.5);
      }
    }
    for (const entry of options.pins) {
      const spot = spotOf(track, box, entry);
      if (spot) p.frames([[spot[0] + 0.5, spot[1] + 0.5, box.cell - 1, box.cell - 1]], theme.accent, 2);
    }
    const spot = spotOf(track, box, options.cursor);
    if (spot) p.frames([[spot[0] - 1, spot[1] - 1, box.cell + 2, box.cell + 2]], theme.accent, 2);
    const weight = active ? 700 : 500;
    const colour = active ? theme.ink : theme.soft;
    const style = { size: LABEL, weight, colour };
    if (plan.view === "blocks") {
      p.text(box.x, box.y - 18, box.label, style);
      const bins = box.binR > 1 || box.binC > 1 ? `, ${box.binR} × ${box.binC} per cell` : "";
      p.text(box.x, box.y - 5, box.note + bins, { size: 10, colour: theme.faint });
    } else if (box.turned) {
      p.text(box.x + box.w / 2 + 2, box.y - 8, box.label, { ...style, turn: -38 });
    } else {
      p.text(box.x + box.w / 2, box.y - 8, box.label, { ...style, anchor: "middle" });
    }
    if (plan.view === "matrix" && box.w > 34) {
      const size = `${b.rows} × ${b.cols}`;
      p.text(box.x + box.w / 2, box.y + box.h + 14, size, { size: 10, anchor: "middle", colour: theme.faint });
    }
  }
  if (plan.view === "matrix") {
    const box = plan.boxes[0];
    const every = Math.max(1, Math.ceil(14 / box.cell));
    for (let r = 0; r < box.rows; r += every) {
      p.text(18, box.y + (r + 0.5) * box.cell + 3.5, String(r), { size: 10, anchor: "end", colour: theme.faint });
    }
  }
}

/** Where an entry is drawn in a box, or null. @param {Track} track @param {Box} box
 *  @param {number} entry @returns {[number, number] | null} */
function spotOf(track, box, entry) {
  if (entry < 0) return null;
  const b = track.blocks[box.block];
  const row = Math.floor(entry / track.width);
  const col = (entry % track.width) - b.start;
  if (col < 0 || col >= b.cols || row >= box.rows * box.binR) return null;
  return [box.x + Math.floor(col / box.binC) * box.cell, box.y + Math.floor(row / box.binR) * box.cell];
}

/** How a small matrix is drawn: cell size and bins. @param {Matrix} m @param {number} [most] */
function fitMatrix(m, most = 34) {
  const binC = Math.max(1, Math.ceil((m.cols * 4) / 200));
  const binR = Math.max(1, Math.ceil((m.rows * 4) / 140));
  const cols = Math.max(1, Math.ceil(m.cols / binC));
  const rows = Math.max(1, Math.ceil(m.rows / binR));
  const cell = Math.max(4, Math.min(most, Math.floor(Math.min(200 / cols, 148 / rows))));
  return { cell, rows, cols, binR, binC, width: cols * cell + 2, height: rows * cell + 2 };
}

/** Draw a small matrix. @param {Painter} p @param {Matrix} m @param {number} x @param {number} y
 *  @param {number} [most] */
function paintMatrix(p, m, x, y, most = 34) {
  const fit = fitMatrix(m, most);
  const { theme } = p;
  let scale = 0;
  for (const v of m.values) if (Math.abs(v) > scale && Math.abs(v) < Infinity) scale = Math.abs(v);
  const at = (/** @type {number} */ r, /** @type {number} */ c) => {
    if (fit.binR === 1 && fit.binC === 1) return m.values[r * m.cols + c] ?? 0;
    let best = 0;
    for (let i = r * fit.binR; i < Math.min((r + 1) * fit.binR, m.rows); i++) {
      for (let j = c * fit.binC; j < Math.min((c + 1) * fit.binC, m.cols); j++) {
        const v = m.values[i * m.cols + j];
        if (Math.abs(v) > Math.abs(best) || Number.isNaN(v)) best = v;
      }
    }
    return best;
  };
  p.cells(x + 1, y + 1, fit.cell, fit.rows, fit.cols, (r, c) => shade(at(r, c), scale));
  /** @type {[number, number][]} */
  const zeros = [];
  for (let r = 0; r < fit.rows && fit.cell >= 8; r++) {
    for (let c = 0; c < fit.cols; c++) {
      const v = at(r, c);
      const [cx, cy] = [x + 1 + (c + 0.5) * fit.cell, y + 1 + (r + 0.5) * fit.cell];
      if (v === 0) zeros.push([cx, cy]);
      else if (fit.cell >= 26) {
        const i = 4 * shade(v, scale);
        const [red, green, blue] = theme.colours.slice(i, i + 3);
        const bright = 0.299 * red + 0.587 * green + 0.114 * blue > 140;
        const text = tiny(v);
        p.text(cx, cy + 3.5, text, { size: (fit.cell >= 32 ? 10 : 9) - (text.length > 5 ? 1.5 : 0), anchor: "middle",
          colour: bright ? "#14181d" : "#ffffff", mono: false });
      }
    }
  }
  p.dots(zeros);
  p.frames([[x + 0.5, y + 0.5, fit.cols * fit.cell + 1, fit.rows * fit.cell + 1]], theme.soft, 1);
  return { ...fit, scale };
}

/** A number for a cell 30 pixels wide. @param {number} v */
function tiny(v) {
  const size = Math.abs(v);
  if (!Number.isFinite(v)) return short(v);
  if (size >= 1000 || size < 0.005) {
    return v.toExponential(0).replace("e+", "e").replaceAll("-", "−");
  }
  const text = size >= 100 ? v.toFixed(0) : size >= 10 ? v.toFixed(1) : v.toFixed(2);
  return (text.includes(".") ? text.replace(/\.?0+$/, "") : text).replaceAll("-", "−");
}

// -- curves ------------------------------------------------------------------------------------------

/** @typedef {{name: string, colour: string, dash?: string, xs: ArrayLike<number | null>,
 *   values: ArrayLike<number | null>}} Series */

/** @param {number} low @param {number} high @param {number} count */
function ticks(low, high, count) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) ?? power;
  const out = [];
  for (let t = Math.ceil(low / step) * step; t <= high + step * 1e-9; t += step) {
    out.push(Math.abs(t) < step * 1e-9 ? 0 : t);
  }
  return out;
}

/** @param {number} low @param {number} high @param {number} count decades of a log axis */
function decades(low, high, count) {
  const [from, to] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  const every = Math.max(1, Math.ceil((to - from) / count));
  const out = [];
  for (let e = from; e <= to; e += every) out.push(10 ** e);
  return out;
}

/** A line chart as SVG. Colours are attributes, so that it can be saved as it stands.
 *  @param {{width: number, height: number, theme: Theme, series: Series[], logX?: boolean,
 *   logY?: boolean, xLabel?: string, label: string, floor?: number, depth?: boolean}} options
 *   with `depth`, x counts layers: whole numbers from 0, and stairs; several values at one x are
 *   states after the same layer, of which the line takes the last */
function lineChart(options) {
  const { width, height, theme, series } = options;
  const m = { left: 46, right: 10, top: 8, bottom: options.xLabel ? 30 : 20 };
  const [inner, tall] = [Math.max(10, width - m.left - m.right), height - m.top - m.bottom];
  const node = svg("svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}`,
    role: "img", "aria-label": options.label });
  let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const s of series) {
    for (let i = 0; i < s.values.length; i++) {
      const [x, y] = [s.xs[i], s.values[i]];
      if (x === null || y === null || !Number.isFinite(y)) continue;
      [x0, x1] = [Math.min(x0, x), Math.max(x1, x)];
      if (options.logY && !(y > 0)) continue;
      [y0, y1] = [Math.min(y0, y), Math.max(y1, y)];
    }
  }
  if (x0 > x1) [x0, x1] = [0, 1];
  if (y0 > y1) [y0, y1] = options.logY ? [1e-16, 1] : [0, 1];
  if (options.logY) {
    y0 = Math.max(y0, options.floor ?? 0);
    [y0, y1] = [y0 / 1.6, y1 * 1.6];
  } else {
    const pad = 0.06 * (y1 - y0) || 0.5 * Math.abs(y1) || 1;
    [y0, y1] = [y0 - pad, y1 + pad];
  }
  const depthLog = options.logX && options.depth; // depths start at 0: use log(1 + x)
  const fx = (/** @type {number} */ v) => (depthLog ? Math.log1p(v) : options.logX ? Math.log(v) : v);
  const fy = (/** @type {number} */ v) => (options.logY ? Math.log(Math.max(v, y0)) : v);
  const [a, b, c, d] = [fx(x0), fx(x1), fy(y0), fy(y1)];
  const X = (/** @type {number} */ v) => m.left + (b > a ? ((fx(v) - a) / (b - a)) * inner : 0);
  const Y = (/** @type {number} */ v) => m.top + tall - (d > c ? ((fy(v) - c) / (d - c)) * tall : tall / 2);
  const label = (/** @type {number} */ x, /** @type {number} */ y, /** @type {string} */ text, /** @type {string} */ anchor) => {
    const t = svg("text", { x, y, "font-size": 10, "font-family": "sans-serif", "text-anchor": anchor, fill: theme.faint });
    t.textContent = text;
    node.append(t);
  };
  for (const t of options.logY ? decades(y0, y1, 4) : ticks(y0, y1, 3)) {
    node.append(svg("line", { x1: m.left, x2: m.left + inner, y1: Y(t), y2: Y(t), stroke: theme.grid }));
    label(m.left - 6, Y(t) + 3.5, short(t), "end");
  }
  const whole = depthLog ? [0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000].filter((t) => t <= x1)
    : options.logX ? decades(x0, x1, 5) : ticks(x0, x1, Math.max(2, Math.floor(inner / 70)));
  for (const t of whole) {
    if (options.depth && !Number.isInteger(t)) continue;
    label(X(t), m.top + tall + 14, short(t), "middle");
  }
  if (options.xLabel) label(m.left + inner, height - 4, options.xLabel, "end");
  node.append(svg("path", { d: `M${m.left} ${m.top}v${tall}h${inner}`, fill: "none", stroke: theme.line }));
  for (const s of series) {
    const within = options.depth ? withinPath(s, X, Y, !!options.logY) : "";
    if (within) node.append(svg("path", { d: within, class: "within", fill: "none", stroke: s.colour, "stroke-opacity": 0.3, "stroke-width": 1 }));
    const line = options.depth ? lastOf(s) : s;
    node.append(svg("path", { d: linePath(line, X, Y, inner, !!options.logY, !!options.depth), class: "curve", fill: "none",
      stroke: s.colour, "stroke-width": 1.75, "stroke-linejoin": "round",
      "stroke-dasharray": s.dash ?? "none" }));
  }
  const cursor = svg("line", { y1: m.top, y2: m.top + tall, stroke: theme.accent, "stroke-width": 1.5, visibility: "hidden" });
  node.append(cursor);
  /** @type {SVGElement[]} */
  const points = series.map((s) => svg("circle", { r: 3.2, fill: s.colour, stroke: theme.panel, "stroke-width": 1.2, visibility: "hidden" }));
  node.append(...points);
  return {
    node,
    /** Mark a value of each series, and the largest x among them. @param {number[]} ks */
    mark(ks) {
      const x = Math.min(x1, Math.max(...series.map((s, i) => s.xs[ks[i]] ?? x0)));
      cursor.setAttribute("visibility", "visible");
      cursor.setAttribute("x1", String(X(x)));
      cursor.setAttribute("x2", String(X(x)));
      series.forEach((s, i) => {
        const y = s.values[ks[i]];
        const shown = y !== null && Number.isFinite(y) && !(options.logY && y <= 0);
        points[i].setAttribute("visibility", shown ? "visible" : "hidden");
        if (!shown) return;
        points[i].setAttribute("cx", String(X(s.xs[ks[i]] ?? x0)));
        points[i].setAttribute("cy", String(Y(/** @type {number} */ (y))));
      });
    },
    /** The depth under a point of the chart. @param {number} px */
    depth(px) {
      const t = a + Math.max(0, Math.min(1, (px - m.left) / inner)) * (b - a);
      return Math.round(depthLog ? Math.expm1(t) : t);
    },
  };
}

/** Whether the next value of a series stands at the same x. @param {Series} s @param {number} i */
function followed(s, i) {
  return i + 1 < s.values.length && s.xs[i] === s.xs[i + 1];
}

/** A series with the last value at each x only. @param {Series} s @returns {Series} */
function lastOf(s) {
  const kept = Array.from(s.values, (_, i) => i).filter((i) => !followed(s, i));
  return { ...s, xs: kept.map((i) => s.xs[i]), values: kept.map((i) => s.values[i]) };
}

/** Upright lines where several values stand at one x. @param {Series} s
 *  @param {(v: number) => number} X @param {(v: number) => number} Y @param {boolean} log */
function withinPath(s, X, Y, log) {
  let d = "";
  for (let i = 0; i < s.values.length; i++) {
    let [low, high] = [Infinity, -Infinity];
    const begin = i;
    for (; ; i++) {
      const y = s.values[i];
      if (y !== null && Number.isFinite(y) && !(log && y <= 0)) [low, high] = [Math.min(low, y), Math.max(high, y)];
      if (!followed(s, i)) break;
    }
    if (i > begin && high > low) d += `M${X(s.xs[i] ?? 0).toFixed(1)} ${Y(low).toFixed(1)}V${Y(high).toFixed(1)}`;
  }
  return d;
}

/** A path; long series are thinned to the lowest and highest value per pixel.
 *  @param {Series} s @param {(v: number) => number} X @param {(v: number) => number} Y
 *  @param {number} inner @param {boolean} log @param {boolean} stairs */
function linePath(s, X, Y, inner, log, stairs) {
  let d = "";
  let pen = "M";
  const count = s.values.length;
  const add = (/** @type {number} */ i) => {
    const [x, y] = [s.xs[i], s.values[i]];
    if (x === null || y === null || !Number.isFinite(y)) {
      pen = "M";
      return;
    }
    if (log && y <= 0) return; // zeros have no place on a log scale: the line passes over them
    const [px, py] = [X(x).toFixed(1), Y(y).toFixed(1)];
    d += stairs && !log && pen === "L" ? `H${px}V${py}` : `${pen}${px} ${py}`;
    pen = "L";
  };
  const per = Math.floor(count / (2 * inner));
  if (per < 2) {
    for (let i = 0; i < count; i++) add(i);
    return d;
  }
  for (let from = 0; from < count; from += per) {
    let [low, high] = [from, from];
    for (let i = from; i < Math.min(count, from + per); i++) {
      if (Number(s.values[i]) < Number(s.values[low])) low = i;
      if (Number(s.values[i]) > Number(s.values[high])) high = i;
    }
    add(Math.min(low, high));
    if (low !== high) add(Math.max(low, high));
  }
  return d;
}

// -- saving ------------------------------------------------------------------------------------------

/** @param {Blob} blob @param {string} name */
function download(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** @param {Element} picture */
function serialized(picture) {
  return new XMLSerializer().serializeToString(picture);
}

/** @param {Element} picture @param {string} name @param {"svg" | "png"} kind */
async function savePicture(picture, name, kind) {
  const text = serialized(picture);
  const file = new Blob([text], { type: "image/svg+xml" });
  if (kind === "svg") {
    download(file, `${name}.svg`);
    return;
  }
  const image = new Image();
  const url = URL.createObjectURL(file);
  image.src = url;
  await image.decode();
  const canvas = document.createElement("canvas");
  const scale = 3;
  canvas.width = scale * Number(picture.getAttribute("width"));
  canvas.height = scale * Number(picture.getAttribute("height"));
  const g = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  g.scale(scale, scale);
  g.drawImage(image, 0, 0);
  URL.revokeObjectURL(url);
  canvas.toBlob((blob) => blob && download(blob, `${name}.png`), "image/png");
}

// -- the explorer ------------------------------------------------------------------------------------

const DASHES = ["none", "6 3", "2 2", "8 2 2 2"];
const SPEEDS = [1, 2, 5, 10, 30, 60];
const TABLE_MOST = 1200; // entries of the numbers table before one block is chosen

/** @typedef {{node: HTMLElement, canvas: HTMLCanvasElement, plan: ReturnType<arrange>,
 *   heading: HTMLElement, rule: HTMLElement, scroller: HTMLElement, legend: HTMLElement,
 *   what: HTMLElement}} PromptPanel
 * @typedef {{chart: ReturnType<lineChart> | null, owners: number[], values: Series[],
 *   body: HTMLElement, legend: HTMLElement, spans: HTMLElement[],
 *   make: () => {series: Series[], owners: number[]}, name: string, log: boolean,
 *   empty: string}} ChartPanel
 * @typedef {{figure: HTMLElement, canvas: HTMLCanvasElement, name: HTMLElement, note: HTMLElement,
 *   tag: HTMLElement}} Figure
 * @typedef {string | {id: string, m: Matrix, title: string, text: string}} Shown */

class Explorer {
  /** @type {Theme} */ theme;
  /** @type {HTMLElement} */ live;
  /** @type {HTMLElement} */ side;
  /** @type {HTMLElement} */ centre;
  /** @type {HTMLElement} */ left;
  /** @type {HTMLElement} */ tip;
  /** @type {HTMLDialogElement} */ help;
  /** @type {{row: HTMLElement, node: TreeNode | null}[][]} */ rows;
  /** @type {{node: TreeNode, label: HTMLElement, row: HTMLElement}[][]} */ counters;
  /** @type {HTMLInputElement} */ slider;
  /** @type {HTMLButtonElement} */ playButton;
  /** @type {HTMLElement} */ where;
  /** @type {HTMLElement} */ ticks;
  /** @type {PromptPanel[]} */ prompts;
  /** @type {HTMLElement} */ headTitle;
  /** @type {HTMLElement} */ headOrder;
  /** @type {HTMLElement} */ headText;
  /** @type {HTMLElement} */ product;
  /** @type {Map<string, Figure>} */ figures;
  /** @type {Record<string, Matrix> | null} */ partsNow = null;
  /** @type {HTMLSelectElement} */ sources;
  /** @type {HTMLTableElement} */ table;
  /** @type {HTMLElement} */ caption;
  /** @type {HTMLDetailsElement} */ numbers;
  /** @type {ChartPanel[]} */ charts;
  /** @type {(() => void)[]} */ syncs = [];
  /** @type {ReturnType<typeof setTimeout> | undefined} */ settling;
  productWidth = 600;
  productKey = "";
  sourceKey = "";

  /** @param {HTMLElement} root @param {Payload} payload @param {Model} model @param {boolean} page */
  constructor(root, payload, model, page) {
    this.root = root;
    this.payload = payload;
    this.model = model;
    this.page = page;
    this.tracks = payload.networks.map((data) => new Track(data));
    if (!this.tracks.some((t) => t.depth)) this.tracks.forEach((t) => (t.depths = t.numbers));
    this.k = 0;
    this.net = 0;
    this.head = 0;
    /** @type {"block" | "global"} */
    this.scale = "block";
    this.fit = false;
    this.marks = true;
    /** @type {"auto" | "matrix" | "blocks"} */
    this.view = "auto";
    /** @type {"layer" | "share"} */
    this.align = "layer";
    this.times = timeline(this.tracks, this.align);
    /** @type {"QK" | "KV" | "auto"} */
    this.order = "auto";
    this.expanded = this.tracks.map(() => -1);
    /** @type {number[][]} */
    this.pins = this.tracks.map(() => []);
    this.cursor = -1;
    this.source = "";
    this.playing = false;
    this.speed = SPEEDS.find((s) => s >= this.span / 15) ?? 60;
    this.pending = 0;
    this.frames = 0;
    this.frameTime = 0;
    this.themeChoice = "auto";
    this.dark = globalThis.matchMedia?.("(prefers-color-scheme: dark)");
    this.build();
    this.applyTheme();
    this.ending = new AbortController();
    const until = { signal: this.ending.signal };
    this.dark?.addEventListener("change", () => this.applyTheme(), until);
    if (page) {
      globalThis.addEventListener("hashchange", () => this.readLink(), until);
      globalThis.addEventListener("beforeprint", () => this.setTheme("light", true), until);
      globalThis.addEventListener("afterprint", () => this.applyTheme(), until);
      this.readLink();
    }
    this.watch = new ResizeObserver(() => this.relayout());
    this.watch.observe(this.centre);
    this.watch.observe(this.side);
    (page ? document : root).addEventListener("keydown", (event) => this.key(/** @type {KeyboardEvent} */ (event)), until);
    this.relayout();
    this.settle();
  }

  get track() {
    return this.tracks[this.net];
  }

  get several() {
    return this.tracks.length > 1;
  }

  /** The network of most attention layers. */
  get deepest() {
    return this.tracks.reduce((best, t, i) => (t.depth > this.tracks[best].depth ? i : best), 0);
  }

  /** How many places the scrubber has. */
  get span() {
    return this.times.depth.length;
  }

  /** Where a network stands when the scrubber is at k. @param {number} i @param {number} [k] */
  positionIn(i, k = this.k) {
    return this.times.at[i][k];
  }

  /** The scrubber's place for a position of one network. @param {number} i @param {number} p */
  placeOf(i, p) {
    const { depth, at } = this.times;
    const track = this.tracks[i];
    const first = bisect(at[i], Math.max(0, Math.min(track.positions - 1, p)));
    if (this.align !== "share" || !track.depth) return first;
    const ideal = (track.depths[at[i][first]] / track.depth) * depth[this.span - 1];
    let best = first;
    for (let k = first; k < this.span && at[i][k] === at[i][first]; k++) {
      if (Math.abs(depth[k] - ideal) < Math.abs(depth[best] - ideal)) best = k;
    }
    return best;
  }

  /** The place after everything that happens at a depth. @param {number} depth */
  placeAt(depth) {
    return Math.max(0, bisect(this.times.depth, depth + 1) - 1);
  }

  /** Scrub by layer or by share of depth, from where the deepest network stands.
   *  @param {"layer" | "share"} align */
  alignBy(align) {
    const end = this.k === this.span - 1;
    const at = this.positionIn(this.deepest);
    this.align = align;
    this.times = timeline(this.tracks, align);
    this.k = end ? this.span - 1 : this.placeOf(this.deepest, at);
    this.slider.max = String(this.span - 1);
    this.drawTicks();
    this.changed();
  }

  // -- building ------------------------------------------------------------------------------------
  build() {
    this.root.classList.add("inweave");
    this.root.setAttribute("role", "application");
    this.root.setAttribute("aria-label", "Network explorer");
    this.live = el("p", { class: "hidden", "aria-live": "polite" });
    this.side = el("aside", { class: "side", "aria-label": "Curves and report" });
    this.centre = el("main", { class: "centre" });
    this.left = el("nav", { class: "left", "aria-label": "Layers of the network" });
    this.tip = el("div", { class: "tip", role: "tooltip", hidden: true });
    this.help = this.buildHelp();
    this.root.replaceChildren(
      el("div", { class: "frame" }, this.buildHeader(), el("div", { class: "body" }, this.left, this.centre, this.side)),
      this.tip,
      this.help,
      this.live,
    );
    this.buildNetworks();
    this.buildCentre();
    this.buildSide();
  }

  buildHeader() {
    const names = el("div", { class: "names" });
    this.tracks.forEach((track, i) => {
      const r = track.data.report;
      const size = `${count(r.depth, "attention layer")} · ${count(r.heads, "head")} · ${count(r.tokens, "token")} × ${count(r.width, "column")}`;
      names.append(
        el(
          "div",
          { class: "name" },
          ...(this.several ? [this.chip(i)] : []),
          el("strong", { text: track.data.name }),
          el("span", { class: "soft", text: size }),
        ),
      );
    });
    return el(
      "header",
      {},
      el("div", { class: "brand" }, el("span", { class: "mark", "aria-hidden": "true" }), el("h1", { text: "inweave" })),
      names,
      el("span", { class: "soft data", text: this.payload.inputs }),
      el(
        "div",
        { class: "tools" },
        iconButton("Light or dark (t)", ICONS.theme, () => this.toggleTheme()),
        iconButton("Keyboard and reading guide (?)", ICONS.help, () => this.help.showModal()),
      ),
    );
  }

  /** @param {number} i */
  chip(i) {
    return el("span", { class: `chip net${i}`, text: String.fromCharCode(65 + i), "aria-hidden": "true" });
  }

  buildHelp() {
    const keys = [
      ["← →", "one layer back, forward"],
      ["Shift ← →", "one step of a repeated module back, forward"],
      ["Home, End", "the input, the last layer"],
      ["Space", "play, pause"],
      ["↑ ↓", "previous, next head of the layer"],
      ["n", "the other network, when two are compared"],
      ["m", "mark changed entries, or not"],
      ["s", "colour scale per block, or one for all"],
      ["v", "the prompt as one matrix, or block by block"],
      ["t", "light, dark"],
      ["Alt + arrows", "move from entry to entry of the prompt; Enter draws its curve"],
    ];
    const list = el("dl", {});
    for (const [key, what] of keys) list.append(el("dt", {}, el("kbd", { text: key })), el("dd", { text: what }));
    const dialog = el(
      "dialog",
      { class: "help", "aria-label": "Keyboard and reading guide" },
      el("h2", { text: "Reading this page" }),
      el("p", {
        text:
          "The prompt is a matrix: rows are tokens, columns are features, and named blocks own ranges of columns. " +
          "Each attention layer adds heads Q Kᵀ V to it. Entries that a layer changed have a dark frame; a dot is an " +
          "exact zero. Click an entry to see its value over depth. Where a block is drawn in bins, each cell shows the entry of " +
          "largest magnitude in it; click the block's name to see all entries.",
      }),
      el("h2", { text: "Keyboard" }),
      list,
      el("form", { method: "dialog" }, el("button", { text: "Close" })),
    );
    return dialog;
  }

  /** A panel with a title, and buttons that save it as a picture.
   *  @param {string} title @param {string} name @param {() => Element} picture
   *  @param {...(Node2 | string)} controls */
  panel(title, name, picture, ...controls) {
    const save = el("details", { class: "save" });
    const label = `Save ${title} as a picture`;
    const summary = el("summary", { "aria-label": label, title: label });
    const icon = svg("svg", { viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" });
    icon.append(svg("path", { d: ICONS.save, fill: "currentColor" }));
    summary.append(icon);
    const menu = el("div", { class: "menu" });
    for (const kind of /** @type {("svg" | "png")[]} */ (["svg", "png"])) {
      menu.append(
        el("button", {
          type: "button",
          text: kind.toUpperCase(),
          onclick: () => {
            save.open = false;
            void savePicture(picture(), `inweave-${name}-layer-${this.track.key(this.positionIn(this.net))}`, kind);
          },
        }),
      );
    }
    save.append(summary, menu);
    save.addEventListener("focusout", (event) => {
      if (!save.contains(/** @type {Node2 | null} */ (event.relatedTarget))) save.open = false;
    });
    const heading = el("h2", { text: title });
    const node = el(
      "section",
      { class: `panel panel-${name}`, "aria-label": title },
      el("div", { class: "bar" }, heading, ...controls, save),
    );
    return { node, heading };
  }

  buildNetworks() {
    this.rows = [];
    this.counters = [];
    this.tracks.forEach((track, i) => {
      const { node, heading } = this.panel(track.data.name, `network-${i}`, () => this.networkPicture(i));
      if (this.several) heading.before(this.chip(i));
      else heading.textContent = "Network";
      /** @type {{row: HTMLElement, node: TreeNode | null}[]} */
      const rows = [];
      /** @type {{node: TreeNode, label: HTMLElement, row: HTMLElement}[]} */
      const counters = [];
      const list = el("ol", { class: "layers" });
      const input = el("button", { type: "button", class: "input", text: "input prompt", onclick: () => this.choose(i, 0) });
      const row = el("li", { class: "layer" }, el("span", { class: "no", text: "0" }), input);
      rows.push({ row, node: null });
      list.append(row);
      let number = 0;
      const add = (/** @type {TreeNode[]} */ nodes, /** @type {HTMLElement} */ into) => {
        for (const part of nodes) {
          if (part.layer >= 0) {
            number += 1;
            const item = this.layerRow(i, part, number);
            rows.push({ row: item, node: part });
            into.append(item);
          } else if (part.repeat === 1 && !part.skip) add(part.body, into);
          else {
            const inner = el("ol", {});
            const label = el("span", { class: "count" });
            const move = (/** @type {number} */ by) => this.turn(i, part, by);
            const item = el(
              "li",
              { class: "module" },
              el(
                "div",
                { class: "repeat" },
                el("span", { text: part.repeat === 1 ? "skip around" : `repeat ${part.repeat} ×${part.skip ? ", skip around" : ""}` }),
                iconButton("Previous step", ICONS.less, () => move(-1)),
                label,
                iconButton("Next step", ICONS.more, () => move(1)),
              ),
              inner,
            );
            if (part.repeat > 0) counters.push({ node: part, label, row: item });
            add(part.body, inner);
            into.append(item);
          }
        }
      };
      add(track.tree, list);
      node.append(list);
      this.rows.push(rows);
      this.counters.push(counters);
      this.left.append(node);
    });
  }

  /** @param {number} i @param {TreeNode} node @param {number} number */
  layerRow(i, node, number) {
    const layer = this.tracks[i].data.layers[node.layer];
    const row = el("li", { class: `layer ${layer.kind}` });
    const go = (/** @type {number} */ head) => {
      const track = this.tracks[i];
      const turns = track.locate(this.positionIn(i)).turns;
      this.head = head;
      this.choose(i, track.positionOf(node, turns));
    };
    row.append(
      el("button", { type: "button", class: "no", text: String(number), "aria-label": `Layer ${number}`, onclick: () => go(0) }),
    );
    const list = el("ul", { class: "heads" });
    (layer.heads ?? []).forEach((head, h) => {
      const button = el("button", { type: "button", class: "head", onclick: () => go(h) });
      head.lines.forEach(([what, dest]) => {
        button.append(
          el("span", { class: "line" }, el("span", { class: "what", text: what }), " → ", el("b", { text: dest })),
        );
      });
      button.setAttribute("aria-label", `Head ${h}: ${head.lines.map(([w, d]) => `${w} → ${d}`).join("; ")}`);
      list.append(el("li", {}, button));
    });
    (layer.functions ?? []).forEach((curve, h) => {
      const button = el("button", { type: "button", class: "head curve", onclick: () => go(h) });
      button.append(this.sparkline(curve), el("span", { class: "what", text: `${curve.name}(${curve.where})` }));
      list.append(el("li", {}, button));
    });
    if (!list.children.length) {
      const text = layer.kind === "pointwise" ? `pointwise, ${layer.units ?? 0} units per entry` : "no heads";
      list.append(el("li", {}, el("button", { type: "button", class: "head", text, onclick: () => go(0) })));
    }
    row.append(list);
    if (!layer.skip && layer.kind === "attention") row.append(el("span", { class: "soft note", text: "replaces the prompt (no skip)" }));
    return row;
  }

  /** @param {Curve} curve */
  sparkline(curve) {
    const finite = curve.net.filter((v) => v !== null);
    const [low, high] = [Math.min(...finite), Math.max(...finite)];
    const points = curve.net
      .map((v, i) => (v === null ? "" : `${(2 + (i / (curve.net.length - 1)) * 44).toFixed(1)},${(22 - ((v - low) / (high - low || 1)) * 18).toFixed(1)}`))
      .join(" ");
    const node = svg("svg", { viewBox: "0 0 48 26", width: 48, height: 26, class: "spark", "aria-hidden": "true" });
    node.append(svg("polyline", { points, fill: "none", stroke: "currentColor", "stroke-width": 1.5 }));
    return node;
  }

  buildCentre() {
    this.slider = el("input", {
      type: "range", min: 0, max: this.span - 1, value: 0, step: 1, "aria-label": "Layer", class: "scrubber",
      oninput: () => this.goto(Number(this.slider.value)),
    });
    this.playButton = iconButton("Play (space)", ICONS.play, () => this.play(!this.playing), { class: "icon play" });
    this.where = el("output", { class: "where" });
    const speed = el("select", {
      "aria-label": "Layers per second",
      onchange: () => (this.speed = Number(speed.value)),
    });
    for (const s of SPEEDS) speed.append(el("option", { value: s, text: `${s} / s`, selected: s === this.speed }));
    this.ticks = el("div", { class: "ticks", "aria-hidden": "true" });
    const align = this.several
      ? [this.choice("Scrub by", [["layer", "layer"], ["share", "share of depth"]], () => this.align, (v) => {
          this.alignBy(/** @type {any} */ (v));
        })]
      : [];
    this.centre.append(
      el(
        "section",
        { class: "panel transport", "aria-label": "Position" },
        el(
          "div",
          { class: "row" },
          iconButton("Input (Home)", ICONS.first, () => this.goto(0)),
          iconButton("One layer back (←)", ICONS.back, () => this.goto(this.k - 1)),
          this.playButton,
          iconButton("One layer forward (→)", ICONS.next, () => this.goto(this.k + 1)),
          iconButton("Last layer (End)", ICONS.last, () => this.goto(this.span - 1)),
          this.where,
          ...align,
          speed,
        ),
        el("div", { class: "track" }, this.slider, this.ticks),
        el(
          "div",
          { class: "row options" },
          this.choice("Colours", [["block", "per block"], ["global", "global"]], () => this.scale, (v) => {
            this.scale = /** @type {any} */ (v);
            this.relayout();
          }),
          this.choice("over", [["all", "all layers"], ["this", "this layer"]], () => (this.fit ? "this" : "all"), (v) => {
            this.fit = v === "this";
            this.relayout();
          }),
          this.choice("View", [["matrix", "matrix"], ["blocks", "blocks"]], () => this.prompts?.[0]?.plan.view ?? "matrix", (v) => {
            this.view = /** @type {any} */ (v);
            this.relayout();
          }),
          this.toggle("changes", () => this.marks, (v) => {
            this.marks = v;
            this.changed();
          }),
        ),
      ),
    );
    this.prompts = this.tracks.map((track, i) => {
      const { node, heading } = this.panel("Prompt", `prompt-${i}`, () => this.promptPicture(i));
      if (this.several) heading.before(this.chip(i));
      const canvas = el("canvas", { tabindex: 0, role: "img", class: "map" });
      canvas.addEventListener("pointermove", (event) => this.hover(i, event));
      canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
      canvas.addEventListener("click", (event) => this.press(i, event));
      const scroller = el("div", { class: "scroller" }, canvas);
      const rule = el("p", { class: "soft rule", hidden: true });
      const legend = el("div", { class: "legend" });
      const what = el("p", { class: "doing" });
      node.append(what, scroller, el("div", { class: "under" }, legend, rule));
      this.centre.append(node);
      return { node, canvas, heading, rule, scroller, legend, what, plan: arrange(track, 600, "auto", -1) };
    });
    const order = this.choice("Multiply first", [["QK", "Q Kᵀ"], ["KV", "Kᵀ V"]], () => this.orderNow, (v) => {
      this.order = /** @type {any} */ (v);
      this.changed();
    });
    const head = this.panel("Head", "head", () => this.headPicture(), order);
    this.headTitle = head.heading;
    this.headOrder = order;
    this.headText = el("p", { class: "formula" });
    this.product = el("div", { class: "product" });
    head.node.append(this.headText, this.product);
    this.centre.append(head.node);
    this.figures = new Map();
    this.buildNumbers();
  }

  buildNumbers() {
    this.sources = el("select", { "aria-label": "Which numbers", onchange: () => {
      this.source = this.sources.value;
      this.fillTable();
    } });
    this.table = el("table", { class: "numbers" });
    this.caption = el("p", { class: "soft" });
    this.numbers = el(
      "details",
      { class: "panel numbers-panel", open: true },
      el("summary", {}, el("h2", { text: "Numbers" })),
      el("div", { class: "bar" }, el("label", {}, "Show ", this.sources), this.caption),
      el("div", { class: "scroller table", tabindex: 0, role: "region", "aria-label": "Numbers of the prompt" }, this.table),
    );
    this.numbers.addEventListener("toggle", () => this.fillTable());
    this.centre.append(this.numbers);
  }

  /** A row of radio-like buttons. @param {string} label @param {[string, string][]} options
   *  @param {() => string} get @param {(value: string) => void} set */
  choice(label, options, get, set) {
    const group = el("div", { class: "choice", role: "group", "aria-label": label });
    const buttons = options.map(([value, text]) =>
      el("button", { type: "button", text, onclick: () => {
        set(value);
        sync();
      } }),
    );
    const sync = () => {
      buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(options[i][0] === get())));
    };
    this.syncs.push(sync);
    sync();
    group.append(el("span", { class: "soft", text: label }), ...buttons);
    return group;
  }

  /** @param {string} text @param {() => boolean} get @param {(value: boolean) => void} set */
  toggle(text, get, set) {
    const button = el("button", { type: "button", class: "toggle", text, onclick: () => {
      set(!get());
      sync();
    } });
    const sync = () => button.setAttribute("aria-pressed", String(get()));
    this.syncs.push(sync);
    sync();
    return button;
  }

  buildSide() {
    this.charts = [];
    this.addChart("Values over depth", "values", false, () => this.valueSeries(), "This network names no outputs; click an entry of the prompt to follow it.");
    if (this.tracks.some((t) => t.distances.some(Boolean))) {
      this.addChart("Distance to reference", "distance", true, () => this.distanceSeries(), "");
    }
    this.addChart("Block norms", "norms", true, () => this.normSeries(), "No block changes.");
    this.tracks.forEach((track, i) => this.side.append(this.buildReport(track, i)));
  }

  /** @param {string} title @param {string} name @param {boolean} log
   *  @param {() => {series: Series[], owners: number[]}} make @param {string} empty */
  addChart(title, name, log, make, empty) {
    const body = el("div", { class: "chart" });
    const legend = el("ul", { class: "keys" });
    /** @type {ChartPanel} */
    const entry = { chart: null, owners: [], values: [], body, legend, spans: [], make, name, log, empty };
    const toggle = this.toggle("log", () => entry.log, (v) => {
      entry.log = v;
      this.drawChart(entry);
      this.markCharts();
    });
    const { node } = this.panel(title, name, () => entry.chart?.node ?? this.linesPicture([entry.empty]), toggle);
    const scrub = (/** @type {PointerEvent} */ event) => {
      if (!entry.chart || (event.type === "pointermove" && !(event.buttons & 1))) return;
      const box = body.getBoundingClientRect();
      this.goto(this.placeAt(entry.chart.depth(event.clientX - box.left)));
    };
    body.addEventListener("pointerdown", scrub);
    body.addEventListener("pointermove", scrub);
    node.append(body, legend);
    if (name === "distance") {
      const source = this.tracks.find((t) => t.data.reference)?.data.reference ?? "";
      node.append(el("p", { class: "soft small", text: `2-norm of answer − reference. Reference: ${source}.` }));
    }
    this.side.append(node);
    this.charts.push(entry);
  }

  /** @returns {{series: Series[], owners: number[]}} */
  valueSeries() {
    /** @type {Series[]} */
    const series = [];
    /** @type {number[]} */
    const owners = [];
    const each = this.several ? 2 : 5;
    this.tracks.forEach((track, i) => {
      const entries = [];
      for (const output of track.data.outputs) {
        const { place } = output;
        const [rows, cols] = place.diagonal ? [1, 1] : [place.rows, place.cols];
        for (let r = 0; r < rows; r++) {
          for (let c = 0; c < cols && entries.length < each; c++) {
            const index = output.kind === "scalar" ? "" : output.kind === "vector" ? `[${r}]` : `[${r}, ${c}]`;
            entries.push({ name: `${output.name || "answer"}${index}`, entry: track.cell(place, r, c) });
          }
        }
      }
      for (const entry of this.pins[i]) entries.push({ name: this.entryName(track, entry), entry });
      entries.forEach(({ name, entry }, j) => {
        series.push({
          name,
          colour: this.theme.lines[(this.several ? i : j) % this.theme.lines.length],
          dash: this.several ? DASHES[j % DASHES.length] : "none",
          xs: track.depths,
          values: track.history(entry),
        });
        owners.push(i);
      });
    });
    return { series, owners };
  }

  /** @returns {{series: Series[], owners: number[]}} */
  distanceSeries() {
    /** @type {Series[]} */
    const series = [];
    /** @type {number[]} */
    const owners = [];
    this.tracks.forEach((track, i) => {
      track.distances.forEach((values, j) => {
        if (!values || (this.several ? j > 2 : j > 6)) return;
        const colour = this.theme.lines[this.several ? i : j];
        const dash = this.several ? DASHES[j % DASHES.length] : "none";
        series.push({ name: track.data.outputs[j].name || "answer", colour, dash, xs: track.depths, values });
        owners.push(i);
      });
    });
    return { series, owners };
  }

  /** @returns {{series: Series[], owners: number[]}} */
  normSeries() {
    /** @type {Series[]} */
    const series = [];
    /** @type {number[]} */
    const owners = [];
    this.tracks.forEach((track, i) => {
      let j = 0;
      track.blocks.forEach((block, b) => {
        if (!track.varies[b] || j >= 7) return;
        series.push({
          name: block.label,
          colour: this.theme.lines[(this.several ? i : j) % this.theme.lines.length],
          dash: this.several ? DASHES[j % DASHES.length] : "none",
          xs: track.depths,
          values: track.norms[b],
        });
        owners.push(i);
        j++;
      });
    });
    return { series, owners };
  }

  /** @param {ChartPanel} entry */
  drawChart(entry) {
    const { series, owners } = entry.make();
    entry.values = series;
    entry.owners = owners;
    entry.chart = null;
    entry.body.replaceChildren();
    entry.legend.replaceChildren();
    entry.spans = [];
    if (!series.length) {
      entry.body.append(el("p", { class: "soft", text: entry.empty }));
      return;
    }
    const depths = this.tracks.map((t) => t.depth + 1);
    const all = this.tracks.every((t) => t.depth === t.numbers[t.positions - 1]);
    const what = `${all ? "" : "attention "}layers executed`;
    const logX = this.several && Math.max(...depths) > 6 * Math.min(...depths);
    entry.chart = lineChart({
      width: Math.max(220, Math.floor(entry.body.clientWidth) || 320),
      height: 148,
      theme: this.theme,
      series,
      logX,
      logY: entry.log,
      floor: 1e-18,
      depth: true,
      xLabel: logX ? `${what}, log scale` : what,
      label: `${entry.name} over depth: ${series.map((s) => s.name).join(", ")}`,
    });
    entry.body.append(entry.chart.node);
    series.forEach((s, i) => {
      const value = el("span", { class: "value" });
      const swatch = svg("svg", { width: 18, height: 8, "aria-hidden": "true" });
      swatch.append(svg("line", { x1: 0, x2: 18, y1: 4, y2: 4, stroke: s.colour, "stroke-width": 2.5, "stroke-dasharray": s.dash ?? "none" }));
      entry.legend.append(el("li", { title: s.name }, ...(this.several ? [this.chip(owners[i])] : []), swatch, el("span", { class: "key", text: clip(s.name, 22) }), value));
      entry.spans.push(value);
    });
  }

  markCharts() {
    for (const entry of this.charts) {
      if (!entry.chart) continue;
      const ks = entry.owners.map((i) => this.positionIn(i));
      entry.chart.mark(ks);
      entry.spans.forEach((span, i) => (span.textContent = short(Number(entry.values[i].values[ks[i]]))));
    }
  }

  /** @param {Track} track @param {number} i */
  buildReport(track, i) {
    const r = track.data.report;
    const { node, heading } = this.panel("Size and proof", `report-${i}`, () => this.reportPicture(track, i));
    if (this.several) heading.before(this.chip(i));
    if (r.bound !== null && r.bound > 0) {
      const most = Math.max(r.depth, r.bound);
      const bar = (/** @type {string} */ label, /** @type {number} */ value, /** @type {string} */ kind) => {
        const fill = el("span", { class: `fill ${kind}` });
        fill.style.width = `${Math.max(1.5, (100 * value) / most)}%`;
        return el("div", { class: "meter" }, el("span", { text: label }), el("span", { class: "rail" }, fill), el("b", { text: String(value) }));
      };
      const tight = r.depth === r.bound;
      node.append(
        el(
          "div",
          { class: "depth", role: "group", "aria-label": `depth ${r.depth}, lower bound ${r.bound}` },
          bar("depth", r.depth, "real"),
          bar("lower bound", r.bound, "bound"),
          el("p", { class: "soft small", text: tight
            ? "No exact network of attention layers is shallower."
            : `⌈log₃ ${r.degree}⌉ = ${r.bound}: no exact network of attention layers has fewer.` }),
        ),
      );
    }
    const list = el("dl", { class: "facts" });
    for (const [key, value] of this.facts(track)) list.append(el("dt", { text: key }), el("dd", { text: value }));
    node.append(list);
    const proof = el("div", { class: `proof ${track.data.certificate ? "good" : "none"}` });
    proof.append(...this.proof(track).map((line, j) => el("p", { text: line, class: j ? "soft small" : "" })));
    node.append(proof);
    return node;
  }

  /** @param {Track} track @returns {[string, string][]} */
  facts(track) {
    const r = track.data.report;
    /** @type {[string, string][]} */
    const out = [];
    if (r.program) out.push(["program", r.program]);
    const sizes = Object.entries(r.sizes).map(([k, v]) => `${k} = ${v}`).join(", ");
    if (sizes) out.push(["sizes", sizes]);
    out.push(["kind", [r.target, r.optimize].filter(Boolean).join(", ")]);
    if (r.bound === null || r.bound === 0) out.push(["attention layers", String(r.depth)]);
    out.push(["heads stored", String(r.heads)], ["prompt", `${r.tokens} tokens × ${r.width} columns`]);
    out.push(["stored numbers", String(r.numbers)]);
    if (r.degree !== null) out.push(["degree", r.degree]);
    if (track.data.rounded) out.push(["states", "rounded to single precision to keep this page small"]);
    return out;
  }

  /** @param {Track} track @returns {string[]} */
  proof(track) {
    const c = track.data.certificate;
    if (!c) return ["Not verified", "No certificate came with this network."];
    const how = c.method === "direct" ? "the whole network at random inputs" : "one step of each tied loop at a random state";
    const out = [
      "Verified equal to the program",
      `Exact, modulo random primes, the least ${c.prime}: ${how}. ${c.trials} trials, seed ${c.seed}.`,
      `A wrong network would pass with probability at most ${Number(c.probability).toExponential(0)}.`,
    ];
    if (typeof c.float_difference === "number") out.push(`Largest relative difference in float64: ${short(c.float_difference)}.`);
    for (const text of [...c.conditions, ...c.functions]) out.push(text);
    out.push(`Fingerprint ${String(c.network).slice(0, 16)}…`);
    return out;
  }

  // -- moving --------------------------------------------------------------------------------------
  /** @param {number} k */
  goto(k) {
    const to = Math.max(0, Math.min(this.span - 1, Math.round(k)));
    if (to === this.k) return;
    this.k = to;
    this.changed();
  }

  /** Choose a network and a position in it. @param {number} i @param {number} position */
  choose(i, position) {
    this.net = i;
    this.k = this.placeOf(i, position);
    this.changed();
  }

  /** Move by whole steps of a repeated module. @param {number} i @param {TreeNode} node @param {number} by */
  turn(i, node, by) {
    const track = this.tracks[i];
    const at = this.positionIn(i);
    const { turns } = track.locate(at);
    const turn = turns.find((t) => t.node === node);
    if (!turn) {
      const start = track.positionOf(node, turns);
      this.choose(i, by > 0 ? start : start + (node.repeat - 1) * node.inner);
      return;
    }
    const step = Math.max(0, Math.min(node.repeat - 1, turn.step + by));
    this.choose(i, at + (step - turn.step) * node.inner);
  }

  /** Move by one step of the innermost repeated module. @param {number} by */
  bigStep(by) {
    const at = this.positionIn(this.net);
    const turns = this.track.locate(at).turns.filter((t) => t.node.repeat > 1);
    const inner = turns.at(-1)?.node.inner ?? this.counters[this.net].find((c) => c.node.repeat > 1)?.node.inner ?? 10;
    const last = this.track.positions - 1;
    if (by > 0 && at === last) this.goto(this.k + inner); // the others go on
    else this.goto(this.placeOf(this.net, at + by * inner));
  }

  /** @param {boolean} on */
  play(on) {
    if (on && this.k >= this.span - 1) this.k = 0;
    this.playing = on;
    const label = on ? "Pause (space)" : "Play (space)";
    this.playButton.setAttribute("aria-label", label);
    this.playButton.title = label;
    this.playButton.querySelector("path")?.setAttribute("d", on ? ICONS.pause : ICONS.play);
    if (!on) {
      this.changed();
      return;
    }
    let last = performance.now();
    let owed = 0;
    const tick = (/** @type {number} */ now) => {
      if (!this.playing) return;
      owed += Math.min(0.25, (now - last) / 1000) * this.speed;
      last = now;
      const whole = Math.floor(owed);
      if (whole) {
        owed -= whole;
        this.goto(this.k + whole);
        if (this.k >= this.span - 1) {
          this.play(false);
          return;
        }
      }
      requestAnimationFrame(tick);
    };
    this.changed();
    requestAnimationFrame(tick);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || this.help.open) return;
    if (target instanceof HTMLSelectElement) return;
    if (target instanceof HTMLInputElement && target.type !== "range") return;
    if (event.altKey) {
      if (event.key.startsWith("Arrow") && this.moveCursor(event.key)) event.preventDefault();
      return;
    }
    const button = target.closest?.("button, summary, a");
    const scrolls = target.closest?.(".scroller.table");
    /** @type {Record<string, () => void>} */
    const actions = {
      ArrowRight: () => (event.shiftKey ? this.bigStep(1) : this.goto(this.k + 1)),
      ArrowLeft: () => (event.shiftKey ? this.bigStep(-1) : this.goto(this.k - 1)),
      Home: () => this.goto(0),
      End: () => this.goto(this.span - 1),
      PageDown: () => this.bigStep(1),
      PageUp: () => this.bigStep(-1),
      ArrowUp: () => this.nextHead(-1),
      ArrowDown: () => this.nextHead(1),
      m: () => (this.marks = !this.marks),
      s: () => {
        this.scale = this.scale === "block" ? "global" : "block";
        this.relayout();
      },
      v: () => {
        this.view = this.prompts[this.net].plan.view === "matrix" ? "blocks" : "matrix";
        this.relayout();
      },
      t: () => this.toggleTheme(),
      n: () => (this.net = (this.net + 1) % this.tracks.length),
      "?": () => this.help.showModal(),
    };
    if (event.key === " " && !button) actions[" "] = () => this.play(!this.playing);
    if (event.key === "Enter" && target instanceof HTMLCanvasElement && this.cursor >= 0) {
      actions.Enter = () => this.pin(this.net, this.cursor);
    }
    if (scrolls && event.key !== " ") return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
    this.changed();
  }

  /** @param {number} by */
  nextHead(by) {
    const layer = this.layerNow();
    const count = (layer?.heads ?? layer?.functions ?? []).length;
    if (count) this.head = (Math.min(this.head, count - 1) + by + count) % count;
  }

  layerNow() {
    const { layer, skip } = this.track.locate(this.positionIn(this.net));
    return layer < 0 || skip ? null : this.track.data.layers[layer];
  }

  /** @param {string} key */
  moveCursor(key) {
    const { track } = this;
    if (this.cursor < 0) this.cursor = 0;
    else {
      let row = Math.floor(this.cursor / track.width);
      let col = this.cursor % track.width;
      if (key === "ArrowRight") col = Math.min(track.width - 1, col + 1);
      if (key === "ArrowLeft") col = Math.max(0, col - 1);
      if (key === "ArrowDown") row = Math.min(track.tokens - 1, row + 1);
      if (key === "ArrowUp") row = Math.max(0, row - 1);
      this.cursor = row * track.width + col;
    }
    this.changed();
    this.say(`${this.entryName(track, this.cursor)} = ${short(track.now[this.cursor])}`);
    return true;
  }

  /** @param {number} i @param {number} entry */
  pin(i, entry) {
    const pins = this.pins[i];
    const at = pins.indexOf(entry);
    if (at >= 0) pins.splice(at, 1);
    else pins.push(entry);
    this.drawChart(this.charts[0]);
    this.changed();
  }

  /** @param {Track} track @param {number} entry */
  entryName(track, entry) {
    const row = Math.floor(entry / track.width);
    const col = entry % track.width;
    const block = track.blocks.find((b) => col >= b.start && col < b.start + b.cols);
    return block ? `${block.label}[${row}, ${col - block.start}]` : `[${row}, ${col}]`;
  }

  // -- pointing ------------------------------------------------------------------------------------
  /** What is under the pointer. @param {number} i @param {MouseEvent} event */
  under(i, event) {
    const box = this.prompts[i].canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const track = this.tracks[i];
    for (const b of this.prompts[i].plan.boxes) {
      const [c, r] = [Math.floor((x - b.x) / b.cell), Math.floor((y - b.y) / b.cell)];
      if (c >= 0 && r >= 0 && c < b.cols && r < b.rows) return { box: b, entry: entryAt(track, b, r, c) };
      const [high, wide] = [b.turned ? 30 : 34, Math.max(b.w, textWidth(b.label, LABEL))];
      if (x >= b.x && x < b.x + wide && y < b.y && y > b.y - high) return { box: b, entry: -1 };
    }
    return null;
  }

  /** @param {number} i @param {PointerEvent} event */
  hover(i, event) {
    const found = this.under(i, event);
    const track = this.tracks[i];
    this.prompts[i].canvas.style.cursor = found ? "pointer" : "default";
    if (!found) {
      this.tip.hidden = true;
      return;
    }
    const block = track.blocks[found.box.block];
    if (found.entry < 0) {
      this.tip.replaceChildren(el("b", { text: block.name }), el("span", { text: `${block.rows} × ${block.cols}, columns ${block.start}:${block.start + block.cols}` }));
    } else {
      const now = track.now[found.entry];
      const before = track.before[found.entry];
      const row = Math.floor(found.entry / track.width);
      const col = (found.entry % track.width) - block.start;
      this.tip.replaceChildren(
        el("b", { text: block.label === block.name ? block.name : `${block.label} (${block.name})` }),
        el("span", { text: `row ${row}, column ${col} (${col + block.start} of the prompt)` }),
        el("span", { class: "number", text: String(now) }),
      );
      if (found.box.binR * found.box.binC > 1) this.tip.append(el("span", { text: "largest magnitude in its bin" }));
      if (!Object.is(now, before)) this.tip.append(el("span", { text: `was ${short(before)} before this layer` }));
    }
    this.tip.hidden = false;
    const root = this.root.getBoundingClientRect();
    const { offsetWidth: w, offsetHeight: h } = this.tip;
    let [x, y] = [event.clientX - root.left + 14, event.clientY - root.top + 16];
    if (x + w > root.width - 8) x = event.clientX - root.left - w - 12;
    if (event.clientY + h + 20 > globalThis.innerHeight) y = event.clientY - root.top - h - 12;
    this.tip.style.left = `${x}px`;
    this.tip.style.top = `${y}px`;
  }

  /** @param {number} i @param {MouseEvent} event */
  press(i, event) {
    this.net = i;
    const found = this.under(i, event);
    if (!found) {
      this.changed();
      return;
    }
    this.source = `block ${found.box.block}`;
    const binned = found.box.binR * found.box.binC > 1;
    if (found.entry < 0 || binned) {
      this.expanded[i] = this.expanded[i] === found.box.block ? -1 : found.box.block;
      this.relayout();
    } else this.pin(i, found.entry);
    this.changed();
  }

  // -- drawing -------------------------------------------------------------------------------------
  /** Something changed: draw in the next frame, and settle when changes stop. */
  changed() {
    if (!this.pending) {
      this.pending = requestAnimationFrame(() => {
        this.pending = 0;
        this.draw();
      });
    }
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.settle(), 140);
  }

  /** Draw everything that follows the scrubber. */
  draw() {
    const begun = performance.now();
    this.tracks.forEach((track, i) => track.show(this.positionIn(i)));
    this.slider.value = String(this.k);
    this.drawWhere();
    this.tracks.forEach((_, i) => {
      this.drawPrompt(i);
      this.drawRows(i);
    });
    this.drawHead();
    this.markCharts();
    for (const sync of this.syncs) sync();
    this.frameTime = performance.now() - begun;
    this.frames += 1;
  }

  drawWhere() {
    const { track } = this;
    const at = this.positionIn(this.net);
    const depth = track.numbers[track.positions - 1];
    let text = at ? `layer ${track.numbers[at]} of ${depth}` : `input, ${depth} layers to come`;
    if (track.skips[at]) text += ", skip added";
    if (track.depth !== depth) text += ` · ${track.depths[at]} of ${count(track.depth, "attention layer")}`;
    const turns = track.locate(at).turns.filter((t) => t.node.repeat > 1);
    for (const t of turns) text += ` · step ${t.step + 1} of ${t.node.repeat}`;
    this.where.textContent = text;
    this.slider.setAttribute("aria-valuetext", text);
  }

  /** What the layer at a network's position does, in one line. @param {number} i */
  doing(i) {
    const track = this.tracks[i];
    const at = this.positionIn(i);
    const where = track.locate(at);
    if (at === 0) return "The input: what the data fills in before any layer.";
    if (where.skip) return "The skip around the module adds the state it began with.";
    const layer = track.data.layers[where.layer];
    const lines = (layer.heads ?? []).flatMap((h) => h.lines.map(([what, dest]) => `${what} → ${dest}`));
    const curves = (layer.functions ?? []).map((f) => `${f.name}(${f.where})`);
    return [...lines, ...curves].join("   ·   ") || "pointwise layer";
  }

  /** @param {number} i */
  drawPrompt(i) {
    const { canvas, plan, heading, what } = this.prompts[i];
    const track = this.tracks[i];
    const at = this.positionIn(i);
    const p = new CanvasPainter(canvas, plan.width, plan.height, this.theme);
    paintPrompt(p, track, plan, this.paintOptions(i));
    const last = at === track.positions - 1;
    const title = at ? `Prompt after layer ${track.numbers[at]}${track.skips[at] ? " and skip" : ""}${last ? " (last)" : ""}` : "Prompt: input";
    if (heading.textContent !== title) heading.textContent = title;
    const text = this.doing(i);
    if (what.textContent !== text) {
      what.textContent = text;
      what.title = text;
    }
    this.prompts[i].node.classList.toggle("focused", this.several && i === this.net);
  }

  /** @param {number} i */
  paintOptions(i) {
    return { scale: this.scale, fit: this.fit, marks: this.marks, cursor: i === this.net ? this.cursor : -1, pins: this.pins[i] };
  }

  /** @param {number} i */
  drawRows(i) {
    const track = this.tracks[i];
    const at = this.positionIn(i);
    const where = track.locate(at);
    for (const { row, node } of this.rows[i]) {
      const here = node ? node.layer === where.layer && !where.skip : at === 0;
      if (row.classList.contains("here") !== here) {
        row.classList.toggle("here", here);
        if (here) reveal(row);
      }
      if (here) row.setAttribute("aria-current", "step");
      else row.removeAttribute("aria-current");
      const heads = row.querySelectorAll(".head");
      heads.forEach((button, h) => {
        const chosen = here && i === this.net && h === Math.min(this.head, heads.length - 1);
        button.classList.toggle("chosen", chosen);
        button.setAttribute("aria-pressed", String(chosen));
      });
    }
    for (const { node, label, row } of this.counters[i]) {
      const turn = where.turns.find((t) => t.node === node);
      const begun = turn || at >= track.positionOf(node, where.turns);
      const text = turn ? `step ${turn.step + 1} / ${node.repeat}` : begun ? "done" : "ahead";
      if (label.textContent !== text) label.textContent = text;
      row.classList.toggle("active", Boolean(turn));
    }
  }

  get orderNow() {
    if (this.order !== "auto") return this.order;
    const parts = this.partsNow;
    if (!parts) return "KV";
    const { Q, V } = parts;
    return Q.rows * (Q.cols + V.cols) < 2 * Q.cols * V.cols ? "QK" : "KV";
  }

  drawHead() {
    const layer = this.layerNow();
    const track = this.track;
    const at = this.positionIn(this.net);
    const heads = layer?.heads ?? [];
    this.partsNow = null;
    this.headOrder.hidden = true;
    if (layer && layer.kind === "pointwise") {
      this.drawFunction(layer);
      return;
    }
    if (!layer || !heads.length) {
      this.headTitle.textContent = "Head";
      this.headText.textContent = at === 0
        ? "No layer has run yet. Move on to layer 1 to see its heads."
        : layer ? "This layer has no heads." : "A skip has no heads.";
      this.clearProduct();
      return;
    }
    const h = Math.min(this.head, heads.length - 1);
    const head = heads[h];
    this.headTitle.textContent = `Layer ${track.numbers[at]}, head ${h} of ${heads.length}`;
    this.headText.textContent = head.lines.map(([what, dest]) => `${what} → ${dest}`).join(";  ");
    const parts = track.parts(head);
    if (!parts || !head.parts) {
      this.clearProduct("The weights of this head are too large for this page; its effect is in the prompt above.");
      return;
    }
    this.partsNow = parts;
    this.headOrder.hidden = false;
    const { query, key, value } = head.parts;
    const dest = [...new Set(head.lines.map(([, d]) => d))].join(", ");
    const qk = this.orderNow === "QK";
    /** @type {Shown[]} */
    const shown = [
      ...(qk ? ["("] : []),
      { id: "Q", m: parts.Q, title: "Q", text: query.text },
      qk ? "×" : "× (",
      { id: "K", m: parts.K, title: "Kᵀ", text: key.text },
      qk ? ") ×" : "×",
      { id: "V", m: parts.V, title: "V", text: value.text },
      qk ? "→" : ") →",
      qk ? { id: "QK", m: parts.QK, title: "Q Kᵀ", text: "first" }
        : { id: "KV", m: parts.KV, title: "Kᵀ V", text: "first" },
      "→",
      { id: "out", m: parts.out, title: "Q Kᵀ V", text: `→ ${dest}` },
    ];
    this.drawProduct(shown);
  }

  /** @param {string} [text] */
  clearProduct(text = "") {
    this.productKey = "";
    this.figures.clear();
    this.product.replaceChildren(...(text ? [el("p", { class: "soft", text })] : []));
  }

  /** Matrices and the signs between them, in the order of multiplication. @param {Shown[]} shown */
  drawProduct(shown) {
    const key = shown.map((s) => (typeof s === "string" ? s : s.id)).join(" ");
    if (key !== this.productKey) {
      this.productKey = key;
      this.figures.clear();
      this.product.replaceChildren();
      for (const part of shown) {
        if (typeof part === "string") {
          this.product.append(el("span", { class: "sign", text: part, "aria-hidden": "true" }));
          continue;
        }
        const canvas = el("canvas", { role: "img" });
        const name = el("span", { class: "expr" });
        const tag = el("span", { class: "tag" });
        const note = el("figcaption", { class: "soft small" });
        const figure = el("figure", { class: "part" }, el("div", { class: "cap" }, el("b", { text: part.title }), tag), name, canvas, note);
        this.figures.set(part.id, { figure, canvas, name, note, tag });
        this.product.append(figure);
      }
    }
    const matrices = shown.flatMap((s) => (typeof s === "string" ? [] : [s.m]));
    const room = this.productWidth - 42 * (shown.length - matrices.length);
    let most = 34;
    const total = () => matrices.reduce((sum, m) => sum + Math.max(72, fitMatrix(m, most).width), 0);
    while (most > 14 && total() > room) most -= 2;
    for (const part of shown) {
      if (typeof part === "string") continue;
      const { id, m, title, text } = part;
      const figure = this.figures.get(id);
      if (!figure) continue;
      const fit = fitMatrix(m, most);
      const p = new CanvasPainter(figure.canvas, fit.width, fit.height, this.theme);
      const { scale } = paintMatrix(p, m, 0, 0, most);
      const nature = m.nature();
      if (figure.name.textContent !== text) {
        figure.name.textContent = text;
        figure.name.title = text;
      }
      const wide = `${Math.max(72, fit.width)}px`;
      if (figure.name.style.maxWidth !== wide) figure.name.style.maxWidth = wide;
      const bins = fit.binR * fit.binC > 1 ? `\n${fit.binR} × ${fit.binC} per cell:\nlargest magnitude` : "";
      const size = `${m.rows} × ${m.cols}`;
      const note = nature === "0" ? size : `${size}\nmax ${short(scale)}${bins}`;
      if (figure.note.textContent !== note) figure.note.textContent = note;
      const tag = nature === "0" ? "zero" : nature;
      if (figure.tag.textContent !== tag) figure.tag.textContent = tag;
      figure.tag.title = nature === "0" ? "all entries are zero" : "an identity, with zeros around it";
      figure.figure.classList.toggle("trivial", Boolean(nature));
      figure.canvas.setAttribute("aria-label", `${title}, ${text}: ${note.replaceAll("\n", ", ")}${tag ? `, ${nature === "0" ? "zero" : "identity"}` : ""}`);
    }
  }

  /** @param {Layer} layer */
  drawFunction(layer) {
    const curves = layer.functions ?? [];
    const key = `f ${curves.length} ${this.track.positions} ${this.net} ${this.track.locate(this.positionIn(this.net)).layer} ${this.theme.name} ${Math.min(this.head, curves.length - 1)}`;
    if (key === this.productKey) return;
    this.clearProduct(curves.length ? "" : `A pointwise layer of ${layer.units ?? 0} units per entry.`);
    this.productKey = key;
    this.headTitle.textContent = "Pointwise layer";
    const chosen = curves[Math.min(this.head, curves.length - 1)];
    this.headText.textContent = chosen ? `${chosen.name}(${chosen.where}) → ${chosen.where}` : "";
    for (const curve of chosen ? [chosen] : []) {
      /** @type {Series[]} */
      const series = [{ name: "network", colour: this.theme.lines[0], xs: curve.x, values: curve.net }];
      if (curve.true) series.unshift({ name: "function", colour: this.theme.lines[1], dash: "5 4", xs: curve.x, values: curve.true });
      const finite = curve.net.filter((v) => v !== null);
      const logY = curve.log && Math.min(...finite) > 0;
      const chart = lineChart({ width: 440, height: 210, theme: this.theme, series, logX: curve.log, logY, xLabel: "entry before", label: `${curve.name} of ${curve.where}` });
      const note = [`${curve.units} hidden units`, curve.note, curve.true ? "dashed: the function, solid: the network" : ""].filter(Boolean).join(" · ");
      this.product.append(el("figure", { class: "part" }, chart.node, el("figcaption", { class: "soft small", text: note })));
    }
  }

  // -- what follows when changes stop ----------------------------------------------------------------
  settle() {
    this.fillTable();
    this.writeLink();
    const at = this.positionIn(this.net);
    this.prompts.forEach(({ canvas }, i) => {
      canvas.setAttribute("aria-label", `Heat map of the prompt after layer ${this.tracks[i].key(this.positionIn(i))}; its numbers are in the table below`);
    });
    this.say(`${this.where.textContent}. ${this.doing(this.net)}`);
    if (this.model.get("layer") !== this.track.numbers[at] || this.model.get("head") !== this.head) {
      this.model.set("layer", this.track.numbers[at]);
      this.model.set("head", this.head);
      this.model.save_changes();
    }
  }

  /** @param {string} text */
  say(text) {
    if (this.live.textContent !== text) this.live.textContent = text;
  }

  /** Sources of the numbers table: the prompt or one block, and the parts of the chosen head. */
  fillTable() {
    const { track } = this;
    const whole = track.size <= TABLE_MOST;
    const parts = this.partsNow ? Object.keys(this.partsNow) : [];
    const names = { Q: "Q", K: "Kᵀ", V: "V", QK: "Q Kᵀ", KV: "Kᵀ V", out: "Q Kᵀ V" };
    const key = `${this.net} ${whole} ${parts.join()}`;
    if (key !== this.sourceKey) {
      this.sourceKey = key;
      this.sources.replaceChildren();
      if (whole) this.sources.append(el("option", { value: "prompt", text: "the whole prompt" }));
      track.blocks.forEach((b, i) => this.sources.append(el("option", { value: `block ${i}`, text: b.label })));
      for (const part of parts) this.sources.append(el("option", { value: `part ${part}`, text: `head: ${names[/** @type {keyof names} */ (part)]}` }));
    }
    const options = [...this.sources.options].map((o) => o.value);
    if (!options.includes(this.source)) this.source = options[0];
    this.sources.value = this.source;
    if (!this.numbers.open) return;
    const at = this.positionIn(this.net);
    const [kind, which] = this.source.split(" ");
    /** @type {{name: string, cols: number}[]} */
    let groups = [];
    /** @type {(r: number, c: number) => number} */
    let value;
    let rows = track.tokens;
    let start = 0;
    let cols = track.width;
    let compareWith = (/** @type {number} */ r, /** @type {number} */ c) => Object.is(track.now[r * track.width + start + c], track.before[r * track.width + start + c]);
    if (kind === "part" && this.partsNow) {
      const m = this.partsNow[which];
      [rows, cols] = [m.rows, m.cols];
      value = (r, c) => m.values[r * m.cols + c];
      compareWith = () => true;
      groups = [{ name: names[/** @type {keyof names} */ (which)], cols }];
    } else {
      if (kind === "block") {
        const b = track.blocks[Number(which)];
        [start, cols] = [b.start, b.cols];
        rows = track.tall[Number(which)] ? track.tokens : b.rows;
        groups = [{ name: b.label, cols }];
      } else groups = track.blocks.map((b) => ({ name: b.label, cols: b.cols }));
      value = (r, c) => track.now[r * track.width + start + c];
    }
    this.table.dataset.layer = track.key(at);
    this.table.dataset.source = this.source;
    const head = el("thead", {});
    const first = el("tr", {}, el("th", { text: "" }));
    for (const g of groups) first.append(el("th", { text: g.name, colspan: g.cols, scope: "colgroup", class: "group" }));
    const second = el("tr", {}, el("th", { text: "row", scope: "col" }));
    for (const g of groups) for (let c = 0; c < g.cols; c++) second.append(el("th", { text: String(c), scope: "col", class: c ? "" : "edge" }));
    head.append(first, second);
    const body = el("tbody", {});
    const edges = new Set();
    let edge = 0;
    for (const g of groups) {
      edges.add(edge);
      edge += g.cols;
    }
    for (let r = 0; r < rows; r++) {
      const line = el("tr", {}, el("th", { text: String(r), scope: "row" }));
      for (let c = 0; c < cols; c++) {
        const same = compareWith(r, c);
        const v = value(r, c);
        const name = [v === 0 ? "zero" : "", same ? "" : "new", edges.has(c) ? "edge" : ""].filter(Boolean).join(" ");
        line.append(el("td", { text: Object.is(v, -0) ? "-0" : String(v), class: name || null }));
      }
      body.append(line);
    }
    this.table.replaceChildren(el("caption", { class: "hidden", text: `${this.sources.selectedOptions[0]?.text ?? ""} after layer ${track.key(at)}` }), head, body);
    const exact = kind === "part" ? "computed by this page from the prompt and the weights"
      : track.data.rounded ? "rounded to single precision" : "exact, as the network computed them";
    const changed = kind === "part" || !at ? "" : "; bold: changed by this layer";
    this.caption.textContent = `${track.data.name}, ${at ? `after layer ${track.key(at)}` : "input"}; ${exact}${changed}`;
  }

  /** A place's name in a link, for several networks: its depth, and `.1`, `.2` and so on where it is
   *  not the first of that depth. */
  placeKey() {
    const depth = this.times.depth[this.k];
    const after = this.k - bisect(this.times.depth, depth);
    return `${depth}${after ? `.${after}` : ""}`;
  }

  /** @param {string} key */
  fromPlaceKey(key) {
    const [depth, after] = key.split(".").map((part) => parseInt(part, 10));
    if (!(depth >= 0)) return 0;
    const first = bisect(this.times.depth, depth);
    return Math.min(first + (after > 0 ? after : 0), this.placeAt(depth));
  }

  /** The view as text after `#`. */
  link() {
    const out = new URLSearchParams();
    out.set("layer", this.several ? this.placeKey() : this.track.key(this.k));
    out.set("head", String(this.head));
    if (this.several) out.set("net", String(this.net));
    if (this.align !== "layer") out.set("align", this.align);
    if (this.scale !== "block") out.set("scale", this.scale);
    if (this.view !== "auto") out.set("view", this.view);
    return `#${out}`;
  }

  writeLink() {
    if (!this.page || this.link() === globalThis.location.hash) return;
    try {
      globalThis.history.replaceState(null, "", this.link());
    } catch {
      // some frames may not change their address; the view is not lost
    }
  }

  readLink() {
    const given = new URLSearchParams(globalThis.location.hash.slice(1));
    const layer = given.get("layer");
    const number = (/** @type {string} */ name, /** @type {number} */ most) => {
      const n = parseInt(given.get(name) ?? "", 10);
      return Number.isFinite(n) ? Math.max(0, Math.min(most, n)) : 0;
    };
    if (given.has("net")) this.net = number("net", this.tracks.length - 1);
    if (this.several) this.alignBy(given.get("align") === "share" ? "share" : "layer");
    if (given.get("scale") === "global") this.scale = "global";
    const view = given.get("view");
    if (view === "matrix" || view === "blocks") this.view = view;
    if (given.has("head")) this.head = number("head", 1e6);
    if (layer !== null) this.k = this.several ? this.fromPlaceKey(layer) : this.track.fromKey(layer);
    this.relayout();
    this.changed();
  }

  // -- layout and theme ------------------------------------------------------------------------------
  relayout() {
    const width = this.centre.clientWidth;
    if (!width || !this.theme) return;
    this.prompts.forEach((prompt, i) => {
      const inner = Math.max(220, prompt.scroller.clientWidth - 2);
      prompt.plan = arrange(this.tracks[i], inner, this.view, this.expanded[i]);
      prompt.rule.hidden = !prompt.plan.binned;
      prompt.rule.textContent = "A cell that stands for several entries shows the one of largest magnitude. Click a block to see every entry.";
      this.drawLegend(i);
    });
    this.productWidth = this.product.clientWidth;
    for (const entry of this.charts) this.drawChart(entry);
    this.drawTicks();
    this.draw();
  }

  drawTicks() {
    this.ticks.replaceChildren();
    const track = this.tracks[this.deepest];
    if (this.span < 2) return;
    const add = (/** @type {number} */ at, /** @type {string} */ kind) => {
      const mark = el("span", { class: kind });
      mark.style.left = `${(100 * (this.placeOf(this.deepest, at) - 0.5)) / (this.span - 1)}%`;
      this.ticks.append(mark);
    };
    let at = 1;
    for (const node of track.tree) {
      const parts = node.repeat === 1 ? node.body : [node];
      for (const part of parts) {
        if (at > 1) add(at, "bound");
        if (part.repeat > 1 && part.repeat <= 60) {
          for (let t = 1; t < part.repeat; t++) add(at + t * part.inner, "turn");
        }
        at += part.span;
      }
      if (node.repeat === 1 && node.skip) at++;
    }
  }

  /** The colour scale. @param {number} i */
  drawLegend(i) {
    const { legend } = this.prompts[i];
    const track = this.tracks[i];
    if (this.scale === "block" && i < this.tracks.length - 1) {
      legend.replaceChildren(); // the same for all networks: stated once, below the last
      return;
    }
    const canvas = el("canvas", { "aria-hidden": "true" });
    const p = new CanvasPainter(canvas, 150, 10, this.theme);
    p.cells(0, 0, 2, 5, 75, (_, c) => Math.round((c / 74) * 2 * HALF));
    const most = Math.max(...track.largest, 0);
    const known = this.scale === "global" && !this.fit;
    const text = known ? [`−${short(most)}`, short(most)] : ["−max", "+max"];
    const rule = `max: ${this.scale === "global" ? "over all blocks" : "each block’s own"}, ${this.fit ? "in this layer" : "over all layers"}`;
    const zero = el("span", { class: "zero", "aria-hidden": "true" });
    const mark = el("span", { class: "sample", "aria-hidden": "true" });
    legend.replaceChildren(
      el("span", { class: "soft", text: text[0] }), canvas, el("span", { class: "soft", text: text[1] }),
      el("span", { class: "soft rule", text: rule }),
      el("span", { class: "soft pair" }, zero, "exactly 0"),
      el("span", { class: "soft pair" }, mark, "changed by this layer"),
    );
  }

  applyTheme() {
    const dark = this.themeChoice === "dark" || (this.themeChoice === "auto" && this.dark?.matches);
    this.setTheme(dark ? "dark" : "light");
  }

  /** @param {"light" | "dark"} name @param {boolean} [now] */
  setTheme(name, now = false) {
    this.root.dataset.theme = name;
    this.theme = readTheme(this.root, name);
    this.productKey = "";
    if (this.prompts[0]?.scroller.clientWidth || now) this.relayout();
  }

  toggleTheme() {
    this.themeChoice = this.root.dataset.theme === "dark" ? "light" : "dark";
    this.applyTheme();
  }

  // -- pictures ------------------------------------------------------------------------------------
  /** @param {number} i */
  promptPicture(i) {
    const { plan } = this.prompts[i];
    const p = new SvgPainter(plan.width + 16, plan.height + 30, this.theme);
    p.text(8, 18, `${this.tracks[i].data.name}: ${this.prompts[i].heading.textContent}`, { size: 12, weight: 600 });
    const moved = { ...plan, boxes: plan.boxes.map((b) => ({ ...b, x: b.x + 4, y: b.y + 26 })) };
    paintPrompt(p, this.tracks[i], moved, this.paintOptions(i));
    return p.node;
  }

  headPicture() {
    const inner = this.product.querySelector("svg");
    if (inner) return inner;
    const parts = this.partsNow;
    if (!parts) return this.linesPicture([this.headText.textContent ?? ""]);
    const ids = ["Q", "K", "V", this.orderNow, "out"];
    const names = { Q: "Q", K: "Kᵀ", V: "V", QK: "Q Kᵀ", KV: "Kᵀ V", out: "Q Kᵀ V" };
    const fits = ids.map((id) => fitMatrix(parts[id]));
    const width = fits.reduce((sum, f) => sum + Math.max(f.width, 40) + 26, 16);
    const height = Math.max(...fits.map((f) => f.height)) + 74;
    const p = new SvgPainter(width, height, this.theme);
    p.text(8, 18, `${this.headTitle.textContent}: ${this.headText.textContent}`, { size: 12, weight: 600 });
    let x = 8;
    ids.forEach((id, i) => {
      const name = names[/** @type {keyof names} */ (id)];
      p.text(x, 44, name, { size: 12, weight: 600 });
      paintMatrix(p, parts[id], x, 52);
      const tag = parts[id].nature();
      p.text(x, 52 + fits[i].height + 14, tag === "0" ? "zero" : tag, { size: 10, colour: this.theme.soft });
      x += Math.max(fits[i].width, 40);
      const sign = ["×", "×", "=", "→", ""][i];
      p.text(x + 13, 52 + 22, sign, { size: 14, anchor: "middle", colour: this.theme.soft });
      x += 26;
    });
    return p.node;
  }

  /** @param {string[]} lines */
  linesPicture(lines) {
    const width = Math.max(200, ...lines.map((l) => textWidth(l, 12))) + 24;
    const p = new SvgPainter(Math.ceil(width), lines.length * 18 + 20, this.theme);
    lines.forEach((line, i) => p.text(12, 24 + i * 18, line, { size: 12, mono: true, weight: i ? 400 : 600 }));
    return p.node;
  }

  /** @param {number} i */
  networkPicture(i) {
    const track = this.tracks[i];
    const lines = [track.data.name];
    let number = 0;
    const add = (/** @type {TreeNode[]} */ nodes, /** @type {string} */ indent) => {
      for (const node of nodes) {
        if (node.layer < 0) {
          const plain = node.repeat === 1 && !node.skip;
          if (!plain) lines.push(`${indent}repeat ${node.repeat} times${node.skip ? ", skip around" : ""}`);
          add(node.body, plain ? indent : `${indent}    `);
          continue;
        }
        number += 1;
        const layer = track.data.layers[node.layer];
        const texts = (layer.heads ?? []).map((h) => h.lines.map(([what, dest]) => `${what} → ${dest}`).join("; "));
        texts.push(...(layer.functions ?? []).map((f) => `${f.name}(${f.where})`));
        texts.forEach((text, j) => lines.push(`${indent}${j ? "   " : String(number).padStart(3)}  ${text}`));
      }
    };
    add(track.tree, "");
    return this.linesPicture(lines);
  }

  /** @param {Track} track @param {number} i */
  reportPicture(track, i) {
    const r = track.data.report;
    void i;
    const lines = [track.data.name, `depth ${r.depth}${r.bound === null ? "" : `, lower bound ${r.bound}`}`];
    lines.push(...this.facts(track).map(([key, value]) => `${key}: ${value}`), "", ...this.proof(track));
    return this.linesPicture(lines);
  }

  destroy() {
    this.playing = false;
    this.ending?.abort();
    this.watch?.disconnect();
    clearTimeout(this.settling);
    cancelAnimationFrame(this.pending);
  }
}

// -- entry points ------------------------------------------------------------------------------------

/** A model that lives in a page: anywidget's interface, with nobody on the other side.
 *  @param {Record<string, any>} values @returns {Model} */
export function staticModel(values) {
  const kept = { layer: 0, head: 0, ...values };
  return {
    get: (name) => kept[/** @type {keyof kept} */ (name)],
    set: (name, value) => void Object.assign(kept, { [name]: value }),
    on: () => undefined,
    save_changes: () => undefined,
  };
}

/** Show a payload in an element. @param {{model: Model, el: HTMLElement, page?: boolean}} where */
export function render({ model, el: host, page = false }) {
  const root = document.createElement("div");
  host.replaceChildren(root);
  let explorer = new Explorer(root, model.get("payload"), model, page);
  const follow = () => {
    const [layer, head] = [model.get("layer"), model.get("head")];
    const at = explorer.positionIn(explorer.net);
    if (explorer.track.numbers[at] === layer && explorer.head === head) return;
    explorer.head = head;
    explorer.choose(explorer.net, explorer.track.fromKey(String(layer)));
  };
  model.on("change:layer", follow);
  model.on("change:head", follow);
  model.on("change:payload", () => {
    explorer.destroy();
    explorer = new Explorer(root, model.get("payload"), model, page);
  });
  // For scripts: element.explorer.goto(3)
  Object.defineProperty(host, "explorer", { get: () => explorer, configurable: true });
  return () => explorer.destroy();
}

export default { render };
