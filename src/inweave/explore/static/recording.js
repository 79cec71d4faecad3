/** What a run is stored as: the input, and what each position after it writes. */

/** The 2-norm, of numbers too whose squares are no floats. @param {ArrayLike<number>} values */
export function norm(values) {
  let [sum, most] = [0, 0];
  for (let i = 0; i < values.length; i++) {
    sum += values[i] * values[i];
    most = Math.max(most, Math.abs(values[i])); // of NaN, NaN
  }
  if ((sum > 1e-280 && sum < Infinity) || !(most > 0 && most < Infinity)) return Math.sqrt(sum);
  sum = 0;
  for (let i = 0; i < values.length; i++) sum += (values[i] / most) ** 2;
  return most * Math.sqrt(sum);
}

/** The 2-norm of a difference. @param {ArrayLike<number>} a @param {ArrayLike<number>} b */
export function distance(a, b) {
  return norm(Float64Array.from(a, (v, j) => v - b[j]));
}

/** A block's entries in a state. @param {Block} block @param {Float64Array} H @param {number} width */
export function blockOf({ start, cols }, H, width) {
  const out = new Float64Array((H.length / width) * cols);
  for (let r = 0; r * width < H.length; r++) out.set(H.subarray(r * width + start, r * width + start + cols), r * cols);
  return out;
}

/** Apply the changes of one position to a state.
 *  @param {Recording} run @param {Float64Array} H @param {number} k @param {number} width */
export function apply({ edits, values }, H, k, width) {
  for (const { row, col, rows, cols, from } of edits[k]) {
    for (let r = 0; r < rows; r++) {
      H.set(values.subarray(from + r * cols, from + (r + 1) * cols), (row + r) * width + col);
    }
  }
}

/** The state of a run at a position. @param {Recording} run @param {number} k @param {number} width */
export function stateAt(run, k, width) {
  const H = Float64Array.from(run.first);
  for (let p = 1; p <= k; p++) apply(run, H, p, width);
  return H;
}

/** How far a run is from another one of the same network: norms of every block at every position.
 *  @param {Track} track @param {Track} clean */
export function effectOf({ run, width, blocks }, clean) {
  const [H, C] = [run, clean.run].map(({ first }) => Float64Array.from(first));
  const norms = blocks.map(() => new Float64Array(run.positions));
  const largest = blocks.map(() => 0);
  for (let k = 0; k < run.positions; k++) {
    if (k) apply(run, H, k, width);
    if (k) apply(clean.run, C, k, width);
    blocks.forEach((block, b) => {
      const [is, was] = [H, C].map((state) => blockOf(block, state, width));
      is.forEach((v, i) => {
        const size = Math.abs(v - was[i]);
        if (size > largest[b] && size < Infinity) largest[b] = size;
      });
      norms[b][k] = distance(is, was);
    });
  }
  return { norms, largest };
}

/** The state of a run, and what was written so far. */
export class Recorder {
  /** @type {Edit[][]} */ edits = [[]];
  used = 0;
  values = new Float64Array(1024);

  /** @param {NetworkData["layout"]} layout @param {ArrayLike<number>} first @param {Replacement[]} replaced */
  constructor({ tokens, width, blocks }, first, replaced) {
    this.tokens = tokens;
    this.width = width;
    this.blocks = blocks;
    /** @type {Replacement[]} */
    this.replaced = replaced;
    this.H = new Float64Array(tokens * width);
    for (let r = 0; r < tokens; r++) {
      for (let c = 0; c < width; c++) this.H[c * tokens + r] = first[r * width + c];
    }
    this.replace(0);
    this.last = this.H.slice();
    this.first = this.rows();
  }

  /** The state row by row. */
  rows() {
    const { tokens, width, H } = this;
    const out = new Float64Array(tokens * width);
    for (let r = 0; r < tokens; r++) {
      for (let c = 0; c < width; c++) out[r * width + c] = H[c * tokens + r];
    }
    return out;
  }

  /** The position that comes next. */
  get next() {
    return this.edits.length;
  }

  /** Put what was asked for in the place of blocks, and say of which. @param {number} k */
  replace(k) {
    const { tokens, width, H } = this;
    const here = this.replaced.filter(({ at }) => at === k);
    for (const { block, state } of here) {
      const { start, cols } = this.blocks[block];
      for (let c = start; c < start + cols; c++) {
        for (let r = 0; r < tokens; r++) H[c * tokens + r] = state ? state[r * width + c] : 0;
      }
    }
    return here.map(({ block }) => block);
  }

  /** One position more. Numbers are compared as they are: NaN is NaN, and -0 is not 0.
   *  @param {number[]} [touched] blocks that may have changed, all unless told */
  note(touched = [...this.blocks.keys()]) {
    const { tokens, H, last } = this;
    const replaced = this.replace(this.next);
    /** @type {Edit[]} */
    const found = [];
    this.blocks.forEach(({ start, cols }, block) => {
      if (!touched.includes(block) && !replaced.includes(block)) return;
      let [left, right, top, bottom] = [-1, 0, tokens, 0];
      for (let c = start; c < start + cols; c++) {
        for (let r = 0, i = c * tokens; r < tokens; r++, i++) {
          if (Object.is(H[i], last[i])) continue;
          if (left < 0) left = c;
          right = c + 1;
          if (r < top) top = r;
          if (r >= bottom) bottom = r + 1;
        }
      }
      if (left < 0) return;
      found.push({ block, row: top, col: left, rows: bottom - top, cols: right - left, from: this.used });
      this.keep(top, bottom, left, right);
    });
    this.edits.push(found);
  }

  /** Store a rectangle row by row, and remember it. @param {number} top @param {number} bottom
   *  @param {number} left @param {number} right */
  keep(top, bottom, left, right) {
    const { tokens, H, last } = this;
    const need = this.used + (bottom - top) * (right - left);
    if (need > this.values.length) {
      const grown = new Float64Array(Math.max(need, 2 * this.values.length));
      grown.set(this.values);
      this.values = grown;
    }
    for (let r = top; r < bottom; r++) {
      for (let c = left; c < right; c++) {
        const i = c * tokens + r;
        this.values[this.used++] = last[i] = H[i];
      }
    }
  }

  /** @returns {Recording} */
  get recording() {
    const { first, edits } = this;
    return { first, edits, values: this.values.subarray(0, this.used), positions: edits.length };
  }
}
