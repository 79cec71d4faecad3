import { short, subscript } from "./text.js";

/** @type {Record<PartName, string>} */
export const PART_NAMES = { Q: "Q", K: "Kᵀ", V: "V", QK: "Q Kᵀ", KV: "Kᵀ V", out: "Q Kᵀ V" };

/** A small matrix; `names` are the columns of the prompt that its columns stand for, if any. */
export class Matrix {
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
        for (let c = 0; c < other.cols; c++) out[r * other.cols + c] += v * other.values[i * other.cols + c];
      }
    }
    return new Matrix(this.rows, other.cols, out, other.names);
  }

  /** The largest finite magnitude. */
  largest() {
    let most = 0;
    for (const v of this.values) if (Math.abs(v) > most && Math.abs(v) < Infinity) most = Math.abs(v);
    return most;
  }

  /** The largest finite magnitude in words; some entries may not be finite. */
  sizeWords() {
    const broken = this.values.some((v) => !Number.isFinite(v));
    const most = this.largest();
    return [...(most || !broken ? [`max ${short(most)}`] : []), ...(broken ? ["not finite"] : [])].join(", ");
  }

  /** "zero", "I₄" (zeros around it allowed) or "" */
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
    if (ones === 0) return "zero";
    return ones === Math.min(this.rows, this.cols) || ones > 1 ? `I${subscript(ones)}` : "";
  }
}

/** Visit the entries of a piece's matrix: an identity's, stored ones, or ones everywhere.
 *  @param {Constant} piece @param {ArrayLike<number>[]} arrays
 *  @param {(row: number, col: number, entry: number) => void} visit */
export function eachEntry({ shift, dense, rows, cols }, arrays, visit) {
  if (shift) {
    const [row, col, size] = shift;
    for (let j = 0; j < size; j++) visit(row + j, col + j, 1);
    return;
  }
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < cols; j++) visit(i, j, dense === undefined ? 1 : arrays[dense][i * cols + j]);
  }
}

/** The projection `H W + B` of the state before the layer, and the columns that it writes.
 *  @param {Track} track @param {Part} part */
function project(track, part) {
  const { tokens, width, before: H } = track;
  const out = new Float64Array(tokens * width);
  const touched = new Uint8Array(width);
  for (const piece of part.pieces) {
    eachEntry(piece, track.arrays, (i, j, entry) => {
      const to = piece.at + j;
      touched[to] = 1;
      if (piece.from < 0) out[i * width + to] += piece.c * entry;
      else {
        const from = piece.from + i;
        for (let r = 0; r < tokens; r++) out[r * width + to] += piece.c * entry * H[r * width + from];
      }
    });
  }
  return { out, touched };
}

/** Some columns of the prompt.
 *  @param {Track} track @param {Float64Array} values @param {(col: number) => any} keep */
function crop({ tokens, width }, values, keep) {
  const kept = Array.from({ length: width }, (_, c) => c).filter(keep);
  const out = new Float64Array(tokens * kept.length);
  for (let r = 0; r < tokens; r++) kept.forEach((c, j) => (out[r * kept.length + j] = values[r * width + c]));
  return new Matrix(tokens, kept.length, out, kept);
}

/** The parts of a head on the state before the layer, without the columns that nothing writes; null where
 *  its weights did not come along. @param {Track} track @param {Head} head @returns {Parts | null} */
export function partsOf(track, head) {
  if (!head.parts) return null;
  const query = project(track, head.parts.query);
  const key = project(track, head.parts.key);
  const value = project(track, head.parts.value);
  const inner = (/** @type {number} */ c) => query.touched[c] || key.touched[c];
  const Q = crop(track, query.out, inner);
  const K = crop(track, key.out, inner).transposed();
  const V = crop(track, value.out, (c) => value.touched[c]);
  const KV = K.times(V);
  return { Q, K, V, QK: Q.times(K), KV, out: Q.times(KV) };
}
