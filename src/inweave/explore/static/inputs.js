import { extent } from "./machine.js";
import { eachEntry } from "./parts.js";
import { unpack } from "./payload.js";

/**
 * The data of a page: inputs by name, which all its networks share, and the prompts that they fill.
 * @typedef {Map<string, ArrayLike<number>>} Values
 */

/** @param {NetworkData[]} networks @returns {Map<string, Input>} */
export function allInputs(networks) {
  return new Map(networks.flatMap((data) => data.inputs.map((input) => [input.name, input])));
}

/** The values that came with the page. @param {Map<string, Input>} inputs @returns {Values} */
export function given(inputs) {
  return new Map([...inputs].map(([name, { value }]) => [name, unpack(value)]));
}

/** Whether an input can take a value. @param {Input} input @param {number} value */
export function accepts({ sign }, value) {
  if (!Number.isFinite(value)) return false;
  return sign === "any" || value > 0 || (sign === "nonnegative" && value === 0);
}

/** Uniform random numbers from 0 to 1, the same for the same seed: mulberry32. @param {number} seed */
function uniforms(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Other data of the same kind. Scalars stay, zeros too; whole numbers, as of classes, change places; a square
 *  matrix is turned, so that it keeps its eigenvalues; all else becomes normal numbers of the same size.
 *  @param {Map<string, Input>} inputs @param {Values} like @param {number} seed @returns {Values} */
export function drawn(inputs, like, seed) {
  const uniform = uniforms(seed);
  const normal = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  return new Map([...inputs].map(([name, { kind, sign, rows, cols }]) => {
    const old = Float64Array.from(like.get(name) ?? []);
    if (kind === "scalar") return [name, old];
    if (kind === "matrix" && rows === cols) return [name, turned(old, rows, normal)];
    if (old.every(Number.isInteger)) return [name, shuffled(old, uniform)];
    const size = Math.sqrt(old.reduce((sum, v) => sum + v * v, 0) / old.filter(Boolean).length);
    const one = () => (sign === "any" ? size * normal() : Math.abs(size * normal()));
    return [name, old.map((v) => (v === 0 ? 0 : one()))];
  }));
}

/** @param {Float64Array} values @param {() => number} uniform */
function shuffled(values, uniform) {
  for (let i = values.length - 1; i > 0; i--) {
    const j = Math.floor(uniform() * (i + 1));
    [values[i], values[j]] = [values[j], values[i]];
  }
  return values;
}

/** `R A Rᵀ`, with a random reflection for each direction in R.
 *  @param {Float64Array} A @param {number} n @param {() => number} normal */
function turned(A, n, normal) {
  for (let times = 0; times < n; times++) {
    const v = Float64Array.from({ length: n }, normal);
    const twice = 2 / v.reduce((sum, x) => sum + x * x, 0);
    for (const [row, col] of [[n, 1], [1, n]]) { // A ← A − 2 (A v) vᵀ / vᵀv, then the same from the left
      for (let i = 0; i < n; i++) {
        let dot = 0;
        for (let j = 0; j < n; j++) dot += A[i * row + j * col] * v[j];
        for (let j = 0; j < n; j++) A[i * row + j * col] -= twice * dot * v[j];
      }
    }
  }
  return A;
}

/** The prompt that values fill, as `inweave.model.prompt` fills it, in the same order.
 *  @param {NetworkData} data @param {ArrayLike<number>[]} arrays @param {Values} values */
export function filled({ layout: { tokens, width }, fills }, arrays, values) {
  const H = new Float64Array(tokens * width);
  for (const { place, source, constant, scale, c } of fills ?? []) {
    const [rows, cols] = extent(place);
    const matrix = constant ? writtenOut(constant, arrays) : values.get(source ?? "");
    const factors = scale.map(([name, power]) => {
      const value = values.get(name)?.[0] ?? NaN;
      return power === 1 ? value : Math.sqrt(value);
    });
    for (let i = 0; i < rows; i++) {
      for (let j = 0; j < cols; j++) {
        if (place.diagonal && i !== j) continue;
        const from = place.diagonal ? 0 : place.transpose ? j * rows + i : i * cols + j;
        let v = matrix?.[from] ?? NaN;
        for (const factor of factors) v = factor * v;
        H[(place.row + i) * width + place.start + place.col + j] += c === 1 ? v : v * c;
      }
    }
  }
  return H;
}

/** The input behind an entry of the prompt, and which of its entries; null where there is none.
 *  @param {NetworkData} data @param {number} entry */
export function behind({ layout: { width }, fills, inputs }, entry) {
  for (const { place, source } of fills ?? []) {
    const [rows, cols] = extent(place);
    const i = Math.floor(entry / width) - place.row;
    const j = (entry % width) - place.start - place.col;
    const input = inputs.find(({ name }) => name === source);
    if (!input || i < 0 || j < 0 || i >= rows || j >= cols || (place.diagonal && i !== j)) continue;
    return { input, entry: place.diagonal ? 0 : place.transpose ? j * rows + i : i * cols + j };
  }
  return null;
}

/** @param {Constant} constant @param {ArrayLike<number>[]} arrays */
function writtenOut(constant, arrays) {
  const out = new Float64Array(constant.rows * constant.cols);
  eachEntry(constant, arrays, (i, j, entry) => (out[i * constant.cols + j] = entry));
  return out;
}
