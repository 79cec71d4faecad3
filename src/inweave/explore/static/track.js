import { carriedBlocks } from "./carried.js";
import { watched } from "./domains.js";
import { unpack } from "./payload.js";
import { apply, blockOf, distance, effectOf, norm, stateAt } from "./recording.js";
import { TreeNode } from "./tree.js";

const CHECKPOINT_BYTES = 6.4e7; // of states kept to start scrubbing from

/** One network's pass: the state at any position, and what can be derived from all of them. */
export class Track {
  at = -2; // nothing shown yet, not even the input
  every = 32; // positions from checkpoint to checkpoint
  /** @type {Float64Array[]} */ checkpoints = [];
  /** @type {Recording} */ run;
  /** @type {Int32Array} how many layers have been executed, */ numbers;
  /** @type {Int32Array} attention layers among them, */ depths;
  /** @type {Int32Array} and skips since the last layer */ skips;
  /** @type {number[]} magnitudes, of each block */ largest;
  /** @type {boolean[]} whether a block ever reaches below its own rows */ tall;
  /** @type {boolean[]} whether a block ever changes */ varies;
  /** @type {Float64Array[]} of each block at each position */ norms;
  /** @type {Float64Array} the last state */ end;
  /** @type {Answer[]} */ answers = [];
  /** @type {ReturnType<typeof carriedBlocks>} */ carried = [];
  /** @type {Track | null} the same network with nothing ablated */ clean = null;
  /** @type {ReturnType<typeof effectOf> | null} of what is ablated */ effect = null;
  broken = -1; // the first position at which an entry is not finite
  judge = ""; // what answers are compared with, where it is not what came with the page

  /** Without a run yet. @param {NetworkData} data @param {TreeNode} [root]
   *  @param {ArrayLike<number>[]} [arrays] */
  constructor(data, root, arrays) {
    const { tokens, width, blocks } = data.layout;
    this.data = data;
    this.tokens = tokens;
    this.width = width;
    this.blocks = blocks;
    this.root = root ?? new TreeNode({ repeat: 1, skip: false, body: data.modules });
    this.arrays = arrays ?? data.arrays.map(unpack);
    this.owner = new Int32Array(width); // the block of each column
    blocks.forEach((b, i) => this.owner.fill(i, b.start, b.start + b.cols));
    this.now = new Float64Array(tokens * width);
    this.before = new Float64Array(tokens * width);
    this.difference = new Float64Array(tokens * width); // to the clean run
  }

  /** The answers that came with the page. */
  references() {
    return this.data.outputs.map(({ reference }) => reference && unpack(reference));
  }

  /** Show a run. @param {Recording} run @param {(ArrayLike<number> | null)[]} wanted the answers
   *  @param {Track | null} [clean] */
  load(run, wanted, clean = null) {
    const { blocks, tokens, width } = this;
    const { positions } = run;
    this.run = run;
    this.clean = clean;
    this.effect = clean && effectOf(this, clean);
    this.every = Math.max(32, Math.ceil((positions * tokens * width * 8) / CHECKPOINT_BYTES));
    this.numbers = new Int32Array(positions);
    this.depths = new Int32Array(positions);
    this.skips = new Int32Array(positions);
    this.count();
    this.largest = blocks.map(() => 0);
    this.tall = blocks.map(() => false);
    this.varies = blocks.map(() => false);
    for (const list of run.edits) for (const { block } of list) this.varies[block] = true;
    this.norms = blocks.map(() => new Float64Array(positions));
    this.answers = this.data.outputs.map((output, i) => this.answer(output, wanted[i]));
    this.checkpoints = [];
    this.broken = -1;
    this.survey();
    this.carried = carriedBlocks(this);
    this.end = stateAt(run, positions - 1, width);
    const at = Math.max(0, Math.min(this.at, this.last));
    this.at = -2;
    this.show(at);
  }

  /** The run that came with the page. @returns {Recording} */
  stored() {
    const { positions } = this.data;
    const changes = unpack(this.data.changes);
    const edits = Array.from({ length: positions }, () => /** @type {Edit[]} */ ([]));
    let from = 0;
    for (let i = 0; i < changes.length; i += 5) {
      const [k, row, col, rows, cols] = changes.subarray(i, i + 5);
      edits[k].push({ block: this.owner[col], row, col, rows, cols, from });
      from += rows * cols;
    }
    const first = unpack(this.data.first);
    return watched(this, { first, edits, values: unpack(this.data.values), positions });
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

  /** @param {Output} output @param {ArrayLike<number> | null} wanted @returns {Answer} */
  answer({ name, kind, place }, wanted) {
    const [rows, cols] = place.diagonal ? [1, 1] : [place.rows, place.cols];
    const cells = Array.from({ length: rows * cols }, (_, j) => {
      const at = [Math.floor(j / cols), j % cols];
      const [r, c] = place.transpose ? at.reverse() : at;
      return (place.row + r) * this.width + place.start + place.col + c;
    });
    const distances = wanted && new Float64Array(this.run.positions);
    return { name: name || "answer", kind, cols, cells, wanted, distances };
  }

  /** One pass over all positions: scales, norms, distances, and states to start scrubbing from. */
  survey() {
    const { blocks, norms } = this;
    for (const [k, H] of this.states()) {
      if (k % this.every === 0) this.checkpoints.push(H.slice());
      const touched = new Set(k ? this.run.edits[k].map((e) => e.block) : blocks.keys());
      for (let b = 0; b < blocks.length; b++) {
        if (!touched.has(b)) norms[b][k] = norms[b][k - 1];
        else {
          const { norm, largest, tall, finite } = this.measure(b, H);
          if (!finite && this.broken < 0) this.broken = k;
          norms[b][k] = norm;
          this.largest[b] = Math.max(this.largest[b], largest);
          this.tall[b] ||= tall;
        }
      }
      for (const { cells, wanted, distances } of this.answers) {
        if (!wanted || !distances) continue;
        distances[k] = distance(cells.map((c) => H[c]), wanted);
      }
    }
  }

  /** A block's norm, its largest finite magnitude, and whether it reaches below its own rows.
   *  @param {number} b @param {Float64Array} H */
  measure(b, H) {
    const { rows, cols, start } = this.blocks[b];
    let [largest, tall, finite] = [0, false, true];
    for (let r = 0; r < this.tokens; r++) {
      for (let c = start; c < start + cols; c++) {
        const v = H[r * this.width + c];
        const size = Math.abs(v);
        if (!(size < Infinity)) finite = false;
        else if (size > largest) largest = size;
        if (v !== 0 && r >= rows) tall = true;
      }
    }
    return { norm: norm(blockOf(this.blocks[b], H, this.width)), largest, tall, finite };
  }

  /** The last position. */
  get last() {
    return this.run.positions - 1;
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
    const H = Float64Array.from(this.run.first);
    for (let k = 0; k < this.run.positions; k++) {
      this.apply(H, k);
      yield [k, H];
    }
  }

  /** Apply the changes of one position to a state. @param {Float64Array} H @param {number} k */
  apply(H, k) {
    apply(this.run, H, k, this.width);
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
    const { clean } = this;
    if (!clean) return;
    clean.show(k);
    this.now.forEach((v, i) => (this.difference[i] = v - clean.now[i]));
  }

  /** What is drawn: the state, or its difference to the clean run. @param {Looks} look */
  seen(look) {
    return look.difference && this.clean ? this.difference : this.now;
  }

  /** Whether an entry is not what it was before. @param {number} entry */
  isNew(entry) {
    return !Object.is(this.now[entry], this.before[entry]);
  }

  /** One entry's value at every position. @param {number} entry */
  history(entry) {
    const [row, col] = [Math.floor(entry / this.width), entry % this.width];
    const out = new Float64Array(this.run.positions).fill(this.run.first[entry]);
    this.run.edits.forEach((list, k) => {
      for (const e of list) {
        const [r, c] = [row - e.row, col - e.col];
        const within = r >= 0 && r < e.rows && c >= 0 && c < e.cols;
        if (within) out.fill(this.run.values[e.from + r * e.cols + c], k);
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
    for (let k = 0; k < this.run.positions; k++) if (this.key(k) === key) return k;
    return parseInt(key, 10) > 0 ? this.last : 0;
  }
}
