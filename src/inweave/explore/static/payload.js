/** Reading what arrives: arrays, and what layers do in words. */

/** @param {Packed} packed @returns {Float64Array | Float32Array | Int32Array} */
export function unpack(packed) {
  const text = atob(packed.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const kinds = { float64: Float64Array, float32: Float32Array, int32: Int32Array };
  return new kinds[packed.dtype](bytes.buffer);
}

/** What a head adds to which blocks. @param {Head} head */
export function headLines(head) {
  return head.lines.map(([what, dest]) => `${what} → ${dest}`);
}

/** @param {Curve} curve */
export function curveText(curve) {
  return `${curve.name}(${curve.where})`;
}

/** @param {Layer} layer */
export function layerLines(layer) {
  return [...(layer.heads ?? []).flatMap(headLines), ...(layer.functions ?? []).map(curveText)];
}
