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

/** Normal random numbers, the same for the same seed. @param {number} seed */
function normals(seed) {
  let state = seed >>> 0;
  const uniform = () => { // mulberry32
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

/** Other data of the same size: normal entries in place of vectors and matrices; scalars stay.
 *  @param {Map<string, Input>} inputs @param {Values} like @param {number} seed @returns {Values} */
export function drawn(inputs, like, seed) {
  const normal = normals(seed);
  return new Map([...inputs].map(([name, { kind, sign }]) => {
    const old = Float64Array.from(like.get(name) ?? []);
    if (kind === "scalar") return [name, old];
    const size = Math.sqrt(old.reduce((sum, v) => sum + v * v, 0) / old.length);
    return [name, old.map(() => (sign === "any" ? size * normal() : Math.abs(size * normal())))];
  }));
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
