import { extent } from "./machine.js";
import { apply } from "./recording.js";
import { short } from "./text.js";

/** A run with the first function in it that met a value outside its domain, where the network refuses to answer.
 *  @param {Track} track @param {Recording} run @returns {Recording} */
export function watched(track, run) {
  const { data: { layers }, width, root } = track;
  const limited = layers.map(({ nets = [] }) => nets.filter(({ domain }) => domain));
  if (!limited.some((nets) => nets.length)) return run;
  const H = Float64Array.from(run.first);
  let k = 0;
  for (const { layer } of root.run()) {
    if (k) apply(run, H, k, width);
    k += 1;
    for (const net of limited[layer] ?? []) {
      const value = outside(net, H, width);
      if (value !== null) return { ...run, left: { net, value, at: k } };
    }
  }
  return run;
}

/** The first entry that a function does not take. @param {PointwiseNet} net @param {Float64Array} H
 *  @param {number} width */
function outside({ place, limits }, H, width) {
  const [low, high] = [limits[0] ?? -Infinity, limits[1] ?? Infinity];
  const [rows, cols] = extent(place);
  for (let r = place.row; r < place.row + rows; r++) {
    for (let c = place.start + place.col; c < place.start + place.col + cols; c++) {
      const value = H[r * width + c];
      if (!(value >= low && value <= high)) return value;
    }
  }
  return null;
}

/** What is wrong with the run that is shown, in words. @param {Track} track @returns {string[]} */
export function warnings(track) {
  const { run: { left }, broken, blocks, owner } = track;
  const out = [];
  if (left) {
    const { net: { name, domain, place }, value, at } = left;
    out.push(`${name} got ${short(value)} in layer ${track.key(at)}, block ${blocks[owner[place.start]].label}; `
      + `its domain is ${domain}. net(...) refuses these data: beyond it, the network is not what the program means.`);
  }
  if (broken === 0) out.push("The input is not finite.");
  else if (broken > 0) out.push(`Layer ${track.key(broken)}: not finite any more.`);
  return out;
}
