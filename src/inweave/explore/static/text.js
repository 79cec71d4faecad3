/** Numbers and names as people read them. */

/** @param {string} text */
function trueMinus(text) {
  return text.replaceAll("-", "−");
}

/** A number in four significant digits. @param {number} v */
export function short(v) {
  if (Number.isNaN(v)) return "NaN";
  if (!Number.isFinite(v)) return v > 0 ? "∞" : "−∞";
  const size = Math.abs(v);
  if (v === 0 || (size >= 1e-3 && size < 1e5)) return trueMinus(String(Number(v.toPrecision(4))));
  const [digits, power] = v.toExponential(2).split("e");
  return trueMinus(`${Number(digits)}e${Number(power)}`);
}

/** A number for a cell 30 pixels wide. @param {number} v */
export function tiny(v) {
  const size = Math.abs(v);
  if (!Number.isFinite(v)) return short(v);
  if (size >= 1000 || size < 0.005) return trueMinus(v.toExponential(0).replace("e+", "e"));
  const text = v.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
  return trueMinus(text.includes(".") ? text.replace(/\.?0+$/, "") : text);
}

/** @param {number} n @param {string} what */
export function count(n, what) {
  return `${n} ${what}${n === 1 ? "" : "s"}`;
}

/** @param {number} n */
export function subscript(n) {
  return String(n).replace(/\d/g, (d) => "₀₁₂₃₄₅₆₇₈₉"[Number(d)]);
}

/** @param {string} text @param {number} most */
export function clip(text, most) {
  const letters = [...text];
  return letters.length <= most ? text : `${letters.slice(0, most - 1).join("")}…`;
}

const ruler = new OffscreenCanvas(1, 1).getContext("2d");

/** The width of text, in bold as the widest. @param {string} text @param {number} size */
export function textWidth(text, size) {
  if (!ruler) return [...text].length * size * 0.7;
  ruler.font = `700 ${size}px system-ui, sans-serif`;
  return ruler.measureText(text).width;
}
