/** The colours of numbers and lines. Blue is negative and orange positive: told apart by every common kind
 *  of colour blindness. */

const STOPS = {
  light: "08306b 2166ac 6aaed6 c6dbef f7f7f5 fddbb0 f2a04b c96210 7f3b08",
  dark: "b9ddff 6db3f2 2f7dc4 214a73 1d232b 6b4219 bf6d18 f2a65a ffdcb3",
};
const NAN = { light: [190, 30, 150, 255], dark: [224, 96, 200, 255] };
const LINES = {
  light: "#0072b2 #d55e00 #009e73 #b05a8c #8a6d00 #3f97c9 #666666".split(" "),
  dark: "#56b4e9 #f2994a #2fc79a #e08fc0 #e3c94b #8fb8ff #a3a9b1".split(" "),
};
export const HALF = 255;

/** @param {"light" | "dark"} theme @returns {Uint8ClampedArray} 511 colours, then one for NaN */
function table(theme) {
  const stops = STOPS[theme].split(" ").map((hex) => parseInt(hex, 16));
  const out = new Uint8ClampedArray((2 * HALF + 2) * 4).fill(255);
  for (let i = 0; i <= 2 * HALF; i++) {
    const t = (i / (2 * HALF)) * (stops.length - 1);
    const low = Math.min(Math.floor(t), stops.length - 2);
    [16, 8, 0].forEach((bits, channel) => {
      const [a, b] = [(stops[low] >> bits) & 255, (stops[low + 1] >> bits) & 255];
      out[4 * i + channel] = a + (t - low) * (b - a);
    });
  }
  out.set(NAN[theme], (2 * HALF + 1) * 4);
  return out;
}

/** The row of the colour table for a value. @param {number} v @param {number} scale */
export function shade(v, scale) {
  if (Number.isNaN(v)) return 2 * HALF + 1;
  if (v === 0 || !(scale > 0)) return HALF;
  return HALF + Math.round(HALF * Math.max(-1, Math.min(1, v / scale)));
}

/** Whether dark text is read best on a row of the colour table. @param {Theme} theme @param {number} row */
export function isBright({ colours }, row) {
  const [red, green, blue] = colours.subarray(4 * row, 4 * row + 3);
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140;
}

/** @param {HTMLElement} root @param {"light" | "dark"} name @returns {Theme} */
export function readTheme(root, name) {
  const style = getComputedStyle(root);
  const get = (/** @type {string} */ key) => style.getPropertyValue(`--${key}`).trim();
  return {
    name, colours: table(name), lines: LINES[name], font: style.fontFamily, mono: get("mono"),
    ink: get("ink"), soft: get("soft"), faint: get("faint"), line: get("line"),
    panel: get("panel"), accent: get("accent"), grid: get("grid"),
  };
}
