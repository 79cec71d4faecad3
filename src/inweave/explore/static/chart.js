import { svg, svgRoot } from "./dom.js";
import { short, textWidth } from "./text.js";

/**
 * Line charts as SVG. Colours are attributes, so that a chart can be saved as it stands.
 *
 * With `depth`, x counts layers: whole numbers from 0, and stairs; several values at one x are states after
 * the same layer, of which the line takes the last and a thin upright one shows the range.
 * @typedef {{width: number, height: number, theme: Theme, series: Series[], label: string, xLabel: string,
 *   logX: boolean, logY: boolean, depth: boolean}} ChartOptions
 * @typedef {{at: (v: number) => number, value: (pixel: number) => number, ticks: number[]}} Axis
 */

const EDGE = { left: 46, right: 10, top: 8, bottom: 30 };
const TICK = 10; // pixels of a number at an axis
const FLOOR = 1e-18; // a log axis goes no lower
const DEPTHS = [0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000];

/** What an axis counts in, and back: depths start at 0, so theirs is log(1 + x).
 *  @type {Record<"linear" | "log" | "depth", ((v: number) => number)[]>} */
const SCALES = {
  linear: [(v) => v, (v) => v],
  log: [Math.log, Math.exp],
  depth: [Math.log1p, Math.expm1],
};

/** From `low` at one pixel to `high` at another; where they are the same, everything stands at a share
 *  `still` of the way. @param {number} low @param {number} high @param {number} from @param {number} to
 *  @param {keyof SCALES} kind @param {number} many @param {number} still @returns {Axis} */
function axis(low, high, from, to, kind, many, still) {
  const [scale, back] = SCALES[kind];
  const [a, b] = [scale(low), scale(high)];
  const ticks = { linear: rounds, log: decades, depth: () => DEPTHS.filter((t) => t <= high) };
  return {
    at: (v) => from + (to - from) * (b > a ? (scale(Math.max(v, low)) - a) / (b - a) : still),
    value: (pixel) => back(a + Math.max(0, Math.min(1, (pixel - from) / (to - from))) * (b - a)),
    ticks: ticks[kind](low, high, many),
  };
}

/** Round numbers. @param {number} low @param {number} high @param {number} many */
function rounds(low, high, many) {
  if (!(high > low)) return [low];
  const rough = (high - low) / many;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) ?? power;
  const out = [];
  for (let t = Math.ceil(low / step) * step; t <= high + step * 1e-9; t += step) {
    out.push(Math.abs(t) < step * 1e-9 ? 0 : t);
  }
  return out;
}

/** Powers of ten; round numbers where there are too few of them.
 *  @param {number} low @param {number} high @param {number} many */
function decades(low, high, many) {
  const [from, to] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  if (to <= from) return rounds(low, high, many);
  const every = Math.max(1, Math.ceil((to - from) / many));
  const out = [];
  for (let e = from; e <= to; e += every) out.push(10 ** e);
  return out;
}

/** Whether a value has a place in the chart. @param {number | null} y @param {boolean} log
 *  @returns {y is number} */
function shown(y, log) {
  return y !== null && Number.isFinite(y) && !(log && y <= 0);
}

/** @param {ChartOptions} options */
function axes({ series, width, height, logX, logY, depth }) {
  let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const { xs, values } of series) {
    for (let i = 0; i < values.length; i++) {
      const [x, y] = [xs[i], values[i]];
      if (x === null || !shown(y, false)) continue;
      [x0, x1] = [Math.min(x0, x), Math.max(x1, x)];
      if (shown(y, logY)) [y0, y1] = [Math.min(y0, y), Math.max(y1, y)];
    }
  }
  if (x0 > x1) [x0, x1] = [0, 1];
  if (y0 > y1) [y0, y1] = logY ? [1e-16, 1] : [0, 1];
  const pad = 0.06 * (y1 - y0) || 0.5 * Math.abs(y1) || 1;
  [y0, y1] = logY ? [Math.max(y0, FLOOR) / 1.6, y1 * 1.6] : [y0 - pad, y1 + pad];
  const Y = axis(y0, y1, height - EDGE.bottom, EDGE.top, logY ? "log" : "linear", logY ? 4 : 3, 0.5);
  const left = Math.max(EDGE.left, ...Y.ticks.map((t) => Math.ceil(textWidth(short(t), TICK)) + 8));
  const right = Math.max(left + 10, width - EDGE.right);
  const many = logX ? 5 : Math.max(2, Math.floor((right - left) / 70));
  const X = axis(x0, x1, left, right, logX ? (depth ? "depth" : "log") : "linear", many, 0);
  if (depth) X.ticks = X.ticks.filter(Number.isInteger);
  return { X, Y, left, right };
}

/** Axes and their labels. @param {ChartOptions} options @param {ReturnType<axes>} axes */
function frameNodes({ width, height, theme, xLabel }, { X, Y, left, right }) {
  const { top } = EDGE;
  const bottom = height - EDGE.bottom;
  /** @param {number} x @param {number} y @param {string} anchor @param {string} said */
  const text = (x, y, anchor, said) => {
    const style = { "font-size": TICK, "font-family": "sans-serif", fill: theme.faint };
    return svg("text", { x, y, ...style, "text-anchor": anchor }, said);
  };
  return [
    ...Y.ticks.flatMap((t) => [
      svg("line", { x1: left, x2: right, y1: Y.at(t), y2: Y.at(t), stroke: theme.grid }),
      text(left - 6, Y.at(t) + 3.5, "end", short(t)),
    ]),
    ...X.ticks.map((t) => {
      const most = width - textWidth(short(t), TICK) / 2; // so that the last one is not cut off
      return text(Math.min(X.at(t), most), bottom + 14, "middle", short(t));
    }),
    text(right, height - 4, "end", xLabel),
    svg("path", { d: `M${left} ${top}V${bottom}H${right}`, fill: "none", stroke: theme.line }),
  ];
}

/** @param {Series} s @param {ChartOptions} options @param {ReturnType<axes>} axes */
function curveNodes(s, { logY, depth }, { X, Y, left, right }) {
  const line = { fill: "none", stroke: s.colour };
  const thin = { class: "within", "stroke-opacity": 0.3, "stroke-width": 1 };
  const thick = { class: "curve", "stroke-width": 1.75, "stroke-linejoin": "round" };
  const range = depth ? rangePath(s, X, Y, logY) : "";
  const d = linePath(depth ? lastOf(s) : s, X, Y, logY, depth && !logY, right - left);
  const curve = svg("path", { d, ...line, ...thick, "stroke-dasharray": s.dash });
  return range ? [svg("path", { d: range, ...line, ...thin }), curve] : [curve];
}

/** @param {ChartOptions} options */
export function lineChart(options) {
  const { width, height, theme, series, logY } = options;
  const found = axes(options);
  const { X, Y, right } = found;
  const upright = { y1: EDGE.top, y2: height - EDGE.bottom, stroke: theme.accent, "stroke-width": 1.5 };
  const cursor = svg("line", { ...upright, visibility: "hidden" });
  const dot = { r: 3.2, stroke: theme.panel, "stroke-width": 1.2, visibility: "hidden" };
  const points = series.map((s) => svg("circle", { fill: s.colour, ...dot }));
  const node = svgRoot(width, height, { role: "img", "aria-label": options.label });
  const lines = series.flatMap((s) => curveNodes(s, options, found));
  node.append(...frameNodes(options, found), ...lines, cursor, ...points);
  /** @param {Element} mark @param {Record<string, number>} at */
  const move = (mark, at) => {
    for (const [key, value] of Object.entries(at)) mark.setAttribute(key, String(value));
    mark.setAttribute("visibility", "visible");
  };
  /** Mark a value of each series, and the largest x among them. @param {number[]} ks */
  const mark = (ks) => {
    const xs = series.map((s, i) => X.at(s.xs[ks[i]] ?? 0));
    const x = Math.min(right, Math.max(...xs));
    move(cursor, { x1: x, x2: x });
    series.forEach((s, i) => {
      const y = s.values[ks[i]];
      if (shown(y, logY)) move(points[i], { cx: xs[i], cy: Y.at(y) });
      else points[i].setAttribute("visibility", "hidden");
    });
  };
  /** The depth under a point of the chart. @param {number} pixel */
  const depthAt = (pixel) => Math.round(X.value(pixel));
  return { node, mark, depthAt };
}

/** Whether the next value of a series stands at the same x. @param {Series} s @param {number} i */
function followed(s, i) {
  return i + 1 < s.values.length && s.xs[i] === s.xs[i + 1];
}

/** A series with the last value at each x only. @param {Series} s @returns {Series} */
function lastOf(s) {
  const kept = Array.from(s.values, (_, i) => i).filter((i) => !followed(s, i));
  return { ...s, xs: kept.map((i) => s.xs[i]), values: kept.map((i) => s.values[i]) };
}

/** Upright lines where several values stand at one x.
 *  @param {Series} s @param {Axis} X @param {Axis} Y @param {boolean} log */
function rangePath(s, X, Y, log) {
  let d = "";
  let [low, high] = [Infinity, -Infinity];
  for (let i = 0; i < s.values.length; i++) {
    const y = s.values[i];
    if (shown(y, log)) [low, high] = [Math.min(low, y), Math.max(high, y)];
    if (followed(s, i)) continue;
    const x = X.at(s.xs[i] ?? 0).toFixed(1);
    if (high > low) d += `M${x} ${Y.at(low).toFixed(1)}V${Y.at(high).toFixed(1)}`;
    [low, high] = [Infinity, -Infinity];
  }
  return d;
}

/** A path; long series are thinned to the lowest and highest value per pixel. @param {Series} s
 *  @param {Axis} X @param {Axis} Y @param {boolean} log @param {boolean} stairs @param {number} pixels */
function linePath(s, X, Y, log, stairs, pixels) {
  let [d, pen] = ["", "M"];
  const add = (/** @type {number} */ i) => {
    const [x, y] = [s.xs[i], s.values[i]];
    if (x === null || !shown(y, false)) pen = "M";
    else if (shown(y, log)) { // zeros have no place on a log scale: the line passes over them
      const [px, py] = [X.at(x).toFixed(1), Y.at(y).toFixed(1)];
      d += stairs && pen === "L" ? `H${px}V${py}` : `${pen}${px} ${py}`;
      pen = "L";
    }
  };
  const count = s.values.length;
  const per = Math.max(1, Math.floor(count / (2 * pixels)));
  for (let from = 0; from < count; from += per) {
    let [low, high] = [from, from];
    for (let i = from; i < Math.min(count, from + per); i++) {
      if (Number(s.values[i]) < Number(s.values[low])) low = i;
      if (Number(s.values[i]) > Number(s.values[high])) high = i;
    }
    for (const i of new Set([Math.min(low, high), Math.max(low, high)])) add(i);
  }
  return d;
}
