import { eachEntry } from "./parts.js";
import { Recorder } from "./recording.js";

/**
 * The network itself, run by the page in float64: what `inweave.model.dense` defines, without the zeros.
 *
 * The state is kept column by column, so that a projection, which adds up columns, and a product walk
 * through memory in order. A run is recorded as the page replays it: the input, and what each position
 * writes.
 *
 * @typedef {{from: Int32Array, to: Int32Array, weight: Float64Array, bias: Float64Array | null,
 *   values: Float64Array, same: boolean}} Projected `same` columns of the state, as they stand there
 * @typedef {{query: Projected, key: Projected, value: Projected, inner: number, dest: number[],
 *   first: "QK" | "KV"}} Wired
 * @typedef {{heads: Wired[], dest: number[], blocks: number[]}} WiredLayer what it writes, and where
 * @typedef {(layer: number, head: number, k: number) => boolean} IsOff
 */

/** A run that takes more multiplications than this, seconds, is left alone. */
const MOST_WORK = 4e8;
const MOST_POSITIONS = 20_000;

export class Machine {
  /** @param {NetworkData} data @param {ArrayLike<number>[]} arrays */
  constructor(data, arrays) {
    this.data = data;
    this.arrays = arrays;
    const complete = data.layers.every((l) => l.heads?.every((h) => h.parts) ?? Boolean(l.nets ?? l.dense));
    /** @type {(WiredLayer | null)[]} */
    this.wired = complete ? data.layers.map(({ heads }) => heads ? wireLayer(heads, data, arrays) : null) : [];
    this.complete = complete && data.fills !== null;
    this.added = new Float64Array(data.layout.tokens * data.layout.width); // by the heads of a layer
  }

  /** Whether this page can run the network: it has all weights, and it takes moments.
   *  @param {TreeNode} root @param {number} [times] as long as it is now */
  able(root, times = 1) {
    return this.complete && times * this.work(root) < MOST_WORK && times * root.inner < MOST_POSITIONS;
  }

  /** Multiplications, about. @param {TreeNode} node @returns {number} */
  work(node) {
    const { tokens, width } = this.data.layout;
    if (node.layer < 0) return node.repeat * node.body.reduce((sum, part) => sum + this.work(part), 0);
    const { units = 0, nets = [] } = this.data.layers[node.layer];
    const functions = nets.reduce((sum, { place, weights: { length } }) => {
      return sum + place.rows * place.cols * length;
    }, 0);
    return (this.wired[node.layer]?.heads ?? []).reduce((sum, { query, key, value, inner, dest }) => {
      const terms = query.from.length + key.from.length + value.from.length;
      return sum + tokens * (terms + 2 * inner * dest.length);
    }, (1 + units) * tokens * width + functions);
  }

  /** Run all modules. @param {TreeNode} root @param {ArrayLike<number>} first the prompt
   *  @param {IsOff} [isOff] whether a head writes nothing at a position
   *  @param {Replacement[]} [replaced] blocks that are replaced at positions */
  run(root, first, isOff = () => false, replaced = []) {
    const state = new Recorder(this.data.layout, first, replaced);
    this.part(root, state, isOff);
    return state.recording;
  }

  /** @param {TreeNode} node @param {Recorder} state @param {IsOff} isOff */
  part(node, state, isOff) {
    if (node.layer >= 0) {
      state.note(this.layer(node.layer, state, isOff));
      return;
    }
    for (let t = 0; t < node.repeat; t++) {
      const before = node.skip ? state.H.slice() : null;
      for (const part of node.body) this.part(part, state, isOff);
      if (!before) continue;
      for (let i = 0; i < before.length; i++) state.H[i] += before[i];
      state.note();
    }
  }

  /** Run a layer; the blocks that it may have changed, where they are not all of them.
   *  @param {number} index @param {Recorder} state @param {IsOff} isOff */
  layer(index, state, isOff) {
    const { skip, dense, nets } = this.data.layers[index];
    const { H, tokens } = state;
    const wired = this.wired[index];
    if (!wired) {
      const out = dense ? this.pointwise(index, H) : applied(nets ?? [], H, tokens);
      for (let i = 0; i < H.length; i++) H[i] = skip ? H[i] + out[i] : out[i];
      return undefined;
    }
    const { added } = this;
    for (const c of wired.dest) added.fill(0, c * tokens, (c + 1) * tokens);
    attend(wired.heads, H, tokens, (h) => isOff(index, h, state.next), added);
    if (!skip) H.fill(0);
    for (const c of wired.dest) for (let i = c * tokens; i < (c + 1) * tokens; i++) H[i] += added[i];
    return skip ? wired.blocks : undefined;
  }

  /** `Σ V ⊙ σ(W ⊙ H + B) + C`, entry by entry. @param {number} index @param {Float64Array} H */
  pointwise(index, H) {
    const { tokens, width } = this.data.layout;
    const { dense, units = 0, relu } = this.data.layers[index];
    const [V, W, B, C] = /** @type {number[]} */ (dense).map((i) => this.arrays[i]);
    return H.map((x, i) => {
      let total = 0;
      for (let u = 0; u < units; u++) {
        const at = (u * tokens + (i % tokens)) * width + Math.floor(i / tokens);
        const inner = W[at] * x + B[at];
        const term = V[at] * (relu ? positive(inner) : inner) + C[at];
        total = u ? total + term : term;
      }
      return total;
    });
  }
}

/** @param {number} x */
function positive(x) {
  return x > 0 ? x : x * 0;
}

/** A function at each place, the identity elsewhere.
 *  @param {PointwiseNet[]} nets @param {Float64Array} H @param {number} tokens */
function applied(nets, H, tokens) {
  const out = H.slice();
  for (const { place, weights, biases, outputs, constant } of nets) {
    const [rows, cols] = extent(place);
    for (let c = 0; c < cols; c++) {
      for (let r = 0; r < rows; r++) {
        const i = (place.start + place.col + c) * tokens + place.row + r;
        let total = constant;
        weights.forEach((w, u) => (total += outputs[u] * positive(w * H[i] + biases[u])));
        out[i] = total;
      }
    }
  }
  return out;
}

/** Rows and columns that a value takes up in the prompt. @param {Place} place */
export function extent({ rows, cols, transpose, diagonal }) {
  if (diagonal) return [diagonal, diagonal];
  return transpose ? [cols, rows] : [rows, cols];
}

/** Add up what heads write. @param {Wired[]} heads @param {Float64Array} H @param {number} tokens
 *  @param {(head: number) => boolean} isOff @param {Float64Array} out */
function attend(heads, H, tokens, isOff, out) {
  heads.forEach(({ query, key, value, inner, dest, first }, h) => {
    if (isOff(h)) return;
    const [Q, K, V] = [query, key, value].map((p) => projection(p, H, tokens));
    if (first === "KV") keysFirst(Q, K, V, inner, dest, tokens, out);
    else queriesFirst(Q, K, V, inner, dest, tokens, out);
  });
}

/** `Q (Kᵀ V)`, added to the columns that it is for. @param {Float64Array} Q @param {Float64Array} K
 *  @param {Float64Array} V @param {number} inner @param {number[]} dest @param {number} tokens
 *  @param {Float64Array} out */
function keysFirst(Q, K, V, inner, dest, tokens, out) {
  dest.forEach((to, j) => {
    for (let i = 0; i < inner; i++) {
      let sum = 0;
      for (let r = 0; r < tokens; r++) sum += K[i * tokens + r] * V[j * tokens + r];
      if (sum === 0) continue;
      for (let r = 0; r < tokens; r++) out[to * tokens + r] += Q[i * tokens + r] * sum;
    }
  });
}

/** `(Q Kᵀ) V`, likewise. @param {Float64Array} Q @param {Float64Array} K @param {Float64Array} V
 *  @param {number} inner @param {number[]} dest @param {number} tokens @param {Float64Array} out */
function queriesFirst(Q, K, V, inner, dest, tokens, out) {
  const pattern = new Float64Array(tokens * tokens); // column by column
  for (let i = 0; i < inner; i++) {
    for (let s = 0; s < tokens; s++) {
      const k = K[i * tokens + s];
      if (k === 0) continue;
      for (let r = 0; r < tokens; r++) pattern[s * tokens + r] += Q[i * tokens + r] * k;
    }
  }
  dest.forEach((to, j) => {
    for (let s = 0; s < tokens; s++) {
      const v = V[j * tokens + s];
      if (v === 0) continue;
      for (let r = 0; r < tokens; r++) out[to * tokens + r] += pattern[s * tokens + r] * v;
    }
  });
}

/** `H W + B`, the columns that matter. @param {Projected} p @param {Float64Array} H @param {number} tokens */
function projection({ from, to, weight, bias, values, same }, H, tokens) {
  if (same) return H.subarray(from[0] * tokens, from[0] * tokens + values.length);
  values.fill(0);
  for (let t = 0; t < from.length; t++) {
    const [a, b, w] = [from[t] * tokens, to[t] * tokens, weight[t]];
    for (let r = 0; r < tokens; r++) values[b + r] += w * H[a + r];
  }
  if (bias) for (let i = 0; i < bias.length; i++) values[i] += bias[i];
  return values;
}

/** The heads of a layer, and what they write. @param {Head[]} heads @param {NetworkData} data
 *  @param {ArrayLike<number>[]} arrays @returns {WiredLayer} */
function wireLayer(heads, data, arrays) {
  const wired = heads.map((head) => wire(head, data, arrays));
  const dest = [...new Set(wired.flatMap((head) => head.dest))];
  const blocks = data.layout.blocks.flatMap(({ start, cols }, b) => {
    return dest.some((c) => c >= start && c < start + cols) ? [b] : [];
  });
  return { heads: wired, dest, blocks };
}

/** A head's projections, without the columns that are always zero.
 *  @param {Head} head @param {NetworkData} data @param {ArrayLike<number>[]} arrays @returns {Wired} */
function wire(head, { layout: { tokens } }, arrays) {
  const { query, key, value } = /** @type {NonNullable<Head["parts"]>} */ (head.parts);
  const [q, k, v] = [query, key, value].map((part) => columnsOf(part, arrays));
  const inner = [...q].filter((c) => k.has(c)).sort((a, b) => a - b);
  const dest = [...v].sort((a, b) => a - b);
  const first = tokens * (inner.length + dest.length) < 2 * inner.length * dest.length ? "QK" : "KV";
  return {
    query: projected(query, inner, tokens, arrays), key: projected(key, inner, tokens, arrays),
    value: projected(value, dest, tokens, arrays), inner: inner.length, dest, first,
  };
}

/** The columns that a projection writes. @param {Part} part @param {ArrayLike<number>[]} arrays */
function columnsOf(part, arrays) {
  /** @type {Set<number>} */
  const found = new Set();
  for (const piece of part.pieces) {
    eachEntry(piece, arrays, (_, j, entry) => entry !== 0 && found.add(piece.at + j));
  }
  return found;
}

/** @param {Part} part @param {number[]} columns @param {number} tokens @param {ArrayLike<number>[]} arrays
 *  @returns {Projected} */
function projected(part, columns, tokens, arrays) {
  const place = new Map(columns.map((c, i) => [c, i]));
  /** @type {number[][]} */
  const terms = [];
  const bias = new Float64Array(columns.length * tokens);
  for (const piece of part.pieces) {
    eachEntry(piece, arrays, (i, j, entry) => {
      const to = place.get(piece.at + j);
      if (to === undefined || entry === 0) return;
      if (piece.from < 0) bias[to * tokens + i] += piece.c * entry;
      else terms.push([piece.from + i, to, piece.c * entry]);
    });
  }
  const biased = bias.some((v) => v);
  const same = !biased && terms.length > 0 && terms.length === columns.length
    && terms.every(([from, to, w], t) => w === 1 && to === t && from === terms[0][0] + t);
  return {
    from: Int32Array.from(terms, ([from]) => from), to: Int32Array.from(terms, ([, to]) => to),
    weight: Float64Array.from(terms, ([, , w]) => w), bias: biased ? bias : null,
    values: new Float64Array(bias.length), same,
  };
}
