import { carriedBlocks } from "./carried.js";
import { unpack } from "./payload.js";
import { TreeNode } from "./tree.js";

const CHECKPOINT_BYTES = 6.4e7; // of states kept to start scrubbing from

/** One network's pass: the state at any position, and what can be derived from all of them. */
export class Track {
  at = -2; // nothing shown yet, not even the input
  /** @type {Float64Array[]} */ checkpoints = [];

  /** @param {NetworkData} data */
  constructor(data) {
    const { tokens, width, blocks } = data.layout;
    const { positions } = data;
    this.data = data;
    this.tokens = tokens;
    this.width = width;
    this.blocks = blocks;
    this.positions = positions;
    this.root = new TreeNode({ repeat: 1, skip: false, body: data.modules });
    this.first = unpack(data.first);
    this.values = unpack(data.values);
    this.arrays = data.arrays.map(unpack);
    this.owner = new Int32Array(width); // the block of each column
    blocks.forEach((b, i) => this.owner.fill(i, b.start, b.start + b.cols));
    this.edits = this.readEdits();
    this.every = Math.max(32, Math.ceil((positions * tokens * width * 8) / CHECKPOINT_BYTES));
    this.numbers = new Int32Array(positions); // of layers executed,
    this.depths = new Int32Array(positions); // of attention layers among them,
    this.skips = new Int32Array(positions); // and of skips since the last layer
    this.count();
    this.largest = blocks.map(() => 0);
    this.tall = blocks.map(() => false); // whether a block ever reaches below its own rows
    this.varies = blocks.map((_, b) => this.edits.some((list) => list.some((e) => e.block === b)));
    this.norms = blocks.map(() => new Float64Array(positions));
    this.answers = data.outputs.map((output) => this.answer(output));
    this.survey();
    this.carried = carriedBlocks(this);
    this.now = new Float64Array(tokens * width);
    this.before = new Float64Array(tokens * width);
    this.show(0);
  }

  /** What each position writes. */
  readEdits() {
    const changes = unpack(this.data.changes);
    const edits = Array.from({ length: this.positions }, () => /** @type {Edit[]} */ ([]));
    let from = 0;
    for (let i = 0; i < changes.length; i += 5) {
      const [k, row, col, rows, cols] = changes.subarray(i, i + 5);
      edits[k].push({ block: this.owner[col], row, col, rows, cols, from });
      from += rows * cols;
    }
    return edits;
  }

  count() {
    const { numbers, depths, skips } = this;
    let k = 0;
    for (const { layer } of this.root.run()) {
      const attends = layer >= 0 && this.data.layers[layer].kind === "attention";
      numbers[k + 1] = numbers[k] + Number(layer >= 0);
      depths[k + 1] = depths[k] + Number(attends);
      skips[k + 1] = layer >= 0 ? 0 : skips[k] + 1;
      k++;
    }
  }

  /** @param {Output} output @returns {Answer} */
  answer({ name, kind, place, reference }) {
    const [rows, cols] = place.diagonal ? [1, 1] : [place.rows, place.cols];
    const cells = Array.from({ length: rows * cols }, (_, j) => {
      const at = [Math.floor(j / cols), j % cols];
      const [r, c] = place.transpose ? at.reverse() : at;
      return (place.row + r) * this.width + place.start + place.col + c;
    });
    const wanted = reference && unpack(reference);
    const distances = wanted && new Float64Array(this.positions);
    return { name: name || "answer", kind, cols, cells, wanted, distances };
  }

  /** One pass over all positions: scales, norms, distances, and states to start scrubbing from. */
  survey() {
    const { blocks, norms } = this;
    for (const [k, H] of this.states()) {
      if (k % this.every === 0) this.checkpoints.push(H.slice());
      const touched = new Set(k ? this.edits[k].map((e) => e.block) : blocks.keys());
      for (let b = 0; b < blocks.length; b++) {
        if (!touched.has(b)) norms[b][k] = norms[b][k - 1];
        else {
          const { norm, largest, tall } = this.measure(b, H);
          norms[b][k] = norm;
          this.largest[b] = Math.max(this.largest[b], largest);
          this.tall[b] ||= tall;
        }
      }
      for (const { cells, wanted, distances } of this.answers) {
        if (!wanted || !distances) continue;
        distances[k] = Math.sqrt(cells.reduce((sum, c, j) => sum + (H[c] - wanted[j]) ** 2, 0));
      }
    }
  }

  /** A block's norm, its largest finite magnitude, and whether it reaches below its own rows.
   *  @param {number} b @param {Float64Array} H */
  measure(b, H) {
    const { rows, cols, start } = this.blocks[b];
    let [sum, largest, tall] = [0, 0, false];
    for (let r = 0; r < this.tokens; r++) {
      for (let c = start; c < start + cols; c++) {
        const v = H[r * this.width + c];
        const size = Math.abs(v);
        sum += v * v;
        if (size > largest && size < Infinity) largest = size;
        if (v !== 0 && r >= rows) tall = true;
      }
    }
    return { norm: Math.sqrt(sum), largest, tall };
  }

  /** The last position. */
  get last() {
    return this.positions - 1;
  }

  /** How many layers run in all. */
  get layers() {
    return this.numbers[this.last];
  }

  /** How many attention layers run in all. */
  get depth() {
    return this.depths[this.last];
  }

  /** Every position and its state, each state written over the one before.
   *  @returns {Generator<[number, Float64Array]>} */
  *states() {
    const H = Float64Array.from(this.first);
    for (let k = 0; k < this.positions; k++) {
      this.apply(H, k);
      yield [k, H];
    }
  }

  /** Apply the changes of one position to a state. @param {Float64Array} H @param {number} k */
  apply(H, k) {
    for (const { row, col, rows, cols, from } of this.edits[k]) {
      for (let r = 0; r < rows; r++) {
        const values = this.values.subarray(from + r * cols, from + (r + 1) * cols);
        H.set(values, (row + r) * this.width + col);
      }
    }
  }

  /** Make `now` the state at a position and `before` the one before it. @param {number} k */
  show(k) {
    if (k === this.at) return;
    if (k === this.at + 1) this.before.set(this.now);
    else {
      const last = Math.max(0, k - 1);
      const from = Math.floor(last / this.every);
      this.before.set(this.checkpoints[from]);
      for (let p = from * this.every + 1; p <= last; p++) this.apply(this.before, p);
    }
    this.now.set(this.before);
    if (k > 0) this.apply(this.now, k);
    this.at = k;
  }

  /** Whether an entry is not what it was before. @param {number} entry */
  isNew(entry) {
    return !Object.is(this.now[entry], this.before[entry]);
  }

  /** One entry's value at every position. @param {number} entry */
  history(entry) {
    const [row, col] = [Math.floor(entry / this.width), entry % this.width];
    const out = new Float64Array(this.positions).fill(this.first[entry]);
    this.edits.forEach((list, k) => {
      for (const e of list) {
        const [r, c] = [row - e.row, col - e.col];
        const within = r >= 0 && r < e.rows && c >= 0 && c < e.cols;
        if (within) out.fill(this.values[e.from + r * e.cols + c], k);
      }
    });
    return out;
  }

  /** An entry's block, row, and column in the block. @param {number} entry */
  spot(entry) {
    const block = this.blocks[this.owner[entry % this.width]];
    return { block, row: Math.floor(entry / this.width), col: (entry % this.width) - block.start };
  }

  /** @param {number} entry */
  entryName(entry) {
    const { block, row, col } = this.spot(entry);
    return `${block.label}[${row}, ${col}]`;
  }

  /** A position's name in a link: the number of executed layers, and `s` for each skip after them.
   *  @param {number} k */
  key(k) {
    return `${this.numbers[k]}${"s".repeat(this.skips[k])}`;
  }

  /** @param {string} key */
  fromKey(key) {
    for (let k = 0; k < this.positions; k++) if (this.key(k) === key) return k;
    return parseInt(key, 10) > 0 ? this.last : 0;
  }
}
