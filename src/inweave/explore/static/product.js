import { isBinned, sizeText } from "./arrange.js";
import { lineChart } from "./chart.js";
import { choice, el, write } from "./dom.js";
import { matrixGrid, paintMatrix } from "./heatmap.js";
import { CanvasPainter, SvgPainter } from "./painter.js";
import { chartPicture, linesPicture, panel } from "./panel.js";
import { PART_NAMES } from "./parts.js";
import { curveText, headLines } from "./payload.js";

const AT_START = "No layer has run yet. Move on to layer 1 to see its heads.";
const TOO_LARGE = "The weights of this head are too large for this page; its effect is in the prompt above.";

/** The chosen head as a product of matrices in the order of multiplication, or the chosen function of a
 *  pointwise layer as a curve. @param {Explorer} app @returns {Panel} */
export function product(app) {
  const { reader, look } = app;
  const order = choice("Multiply first", [["QK", "Q Kᵀ"], ["KV", "Kᵀ V"]], (value) => {
    app.restyle({ order: value });
  });
  const formula = el("p", { class: "formula" });
  const body = el("div", { class: "product" });
  let room = 600;
  /** @type {Curve | undefined} */
  let curve;
  const first = (/** @type {Parts} */ parts) => (look.order === "auto" ? cheapest(parts) : look.order);
  const picture = () => {
    const title = `${heading.textContent}: ${formula.textContent}`;
    if (app.parts) return productPicture(app.parts, first(app.parts), title, app.theme);
    const chart = body.querySelector("svg");
    if (chart && curve) return chartPicture(title, chart, curveSeries(curve, app.theme), app.theme);
    return linesPicture([formula.textContent ?? ""], app.theme);
  };
  const { node, heading } = panel(app, { title: "Head", name: "head", picture, controls: [order.node] });
  node.append(formula, body);
  /** @param {string} title @param {string} text @param {HTMLElement[]} parts */
  const show = (title, text, ...parts) => {
    write(heading, title);
    write(formula, text);
    body.replaceChildren(...parts);
  };
  const note = (/** @type {string} */ text) => el("p", { class: "soft", text });

  const draw = () => {
    const { track } = reader;
    const { parts, theme } = app;
    const { layer, chosen, count } = reader.selected();
    const head = layer?.heads?.[chosen];
    curve = layer?.functions?.[chosen];
    order.node.hidden = !parts;
    order.show(parts ? first(parts) : "KV");
    if (head) {
      const matrices = parts ? factors(head, parts, first(parts), room, theme) : [note(TOO_LARGE)];
      const off = app.live.isOff(reader.net, track.root.locate(track.at).layer, chosen, track.at);
      const title = `Layer ${track.numbers[track.at]}, head ${chosen} of ${count}${off ? ", switched off" : ""}`;
      show(title, headLines(head).join(";  "), ...matrices);
    } else if (curve) {
      show("Pointwise layer", `${curveText(curve)} → ${curve.where}`, curveFigure(curve, theme));
    } else if (layer?.kind === "pointwise") {
      show("Pointwise layer", "", note(`A pointwise layer of ${layer.units ?? 0} units per entry.`));
    } else show("Head", layer ? "This layer has no heads." : track.at ? "A skip has no heads." : AT_START);
  };
  return { node, measure: () => (room = body.clientWidth), draw };
}

/** Which product is cheaper to begin with. @param {Parts} parts */
function cheapest({ Q, V }) {
  return Q.rows * (Q.cols + V.cols) < 2 * Q.cols * V.cols ? "QK" : "KV";
}

/** @param {Matrix} m @param {number} most */
function wide(m, most) {
  return Math.max(72, matrixGrid(m, most).w + 2);
}

/** Matrices and the signs between them, with cells as large as there is room for in a row.
 *  @param {Head} head @param {Parts} parts @param {"QK" | "KV"} first @param {number} room
 *  @param {Theme} theme */
function factors(head, parts, first, room, theme) {
  const { query, key, value } = /** @type {NonNullable<Head["parts"]>} */ (head.parts);
  const dest = [...new Set(head.lines.map(([, block]) => block))].join(", ");
  const texts = { Q: query.text, K: key.text, V: value.text, QK: "first", KV: "first", out: `→ ${dest}` };
  const order = first === "QK" ? ["(", "Q", "×", "K", ") ×", "V", "→", "QK", "→", "out"]
    : ["Q", "× (", "K", "×", "V", ") →", "KV", "→", "out"];
  const isPart = (/** @type {string} */ word) => word in parts;
  const matrices = /** @type {PartName[]} */ (order.filter(isPart)).map((name) => parts[name]);
  const signs = order.length - matrices.length;
  let most = 34;
  while (most > 14 && matrices.reduce((sum, m) => sum + wide(m, most), 42 * signs) > room) most -= 2;
  return order.map((word) => {
    const name = /** @type {PartName} */ (word);
    if (isPart(word)) return matrixFigure(parts[name], PART_NAMES[name], texts[name], most, theme);
    return el("span", { class: "sign", text: word, "aria-hidden": "true" });
  });
}

/** A matrix with its name, what it is made of, and its size.
 *  @param {Matrix} m @param {string} title @param {string} text @param {number} most @param {Theme} theme */
function matrixFigure(m, title, text, most, theme) {
  const grid = matrixGrid(m, most);
  const canvas = el("canvas", { role: "img" });
  paintMatrix(new CanvasPainter(canvas, grid.w + 2, grid.h + 2, theme), m, { ...grid, x: 1, y: 1 });
  const nature = m.nature();
  const zero = nature === "zero";
  const bins = isBinned(grid) ? [`${grid.binR} × ${grid.binC} per cell:`, "largest magnitude"] : [];
  const size = [sizeText(m), ...(zero ? [] : [m.sizeWords(), ...bins])];
  const kind = nature ? [zero ? "zero" : "identity"] : [];
  canvas.setAttribute("aria-label", `${title}, ${text}: ${[...size, ...kind].join(", ")}`);
  const hint = zero ? "all entries are zero" : "an identity, with zeros around it";
  const tag = el("span", { class: "tag", title: hint, text: nature });
  const name = el("span", { class: "expr", title: text, text });
  name.style.maxWidth = `${wide(m, most)}px`;
  return el("figure", { class: `part${nature ? " trivial" : ""}` },
    el("div", { class: "cap" }, el("b", { text: title }), tag), name, canvas,
    el("figcaption", { class: "soft small", text: size.join("\n") }));
}

/** What the network computes, and what that stands for where it is known.
 *  @param {Curve} curve @param {Theme} theme @returns {Series[]} */
function curveSeries({ x: xs, net, true: wanted }, { lines: [blue, orange] }) {
  const drawn = { name: "network", colour: blue, dash: "none", xs, values: net };
  return [...(wanted ? [{ name: "function", colour: orange, dash: "5 4", xs, values: wanted }] : []), drawn];
}

/** @param {Curve} curve @param {Theme} theme */
function curveFigure(curve, theme) {
  const { name, where, units, note, log, net } = curve;
  const series = curveSeries(curve, theme);
  const logY = log && Math.min(...net.filter((v) => v !== null)) > 0;
  const chart = lineChart({ width: 440, height: 210, theme, series, logX: log, logY, depth: false,
    xLabel: "entry before", label: `${name} of ${where}` });
  const key = curve.true ? "dashed: the function, solid: the network" : "";
  const text = [`${units} hidden units`, note, key].filter(Boolean).join(" · ");
  return el("figure", { class: "part" }, chart.node, el("figcaption", { class: "soft small", text }));
}

/** @param {Parts} parts @param {"QK" | "KV"} first @param {string} title @param {Theme} theme */
function productPicture(parts, first, title, theme) {
  const names = /** @type {PartName[]} */ (["Q", "K", "V", first, "out"]);
  const grids = names.map((name) => matrixGrid(parts[name]));
  const width = grids.reduce((sum, { w }) => sum + Math.max(w + 2, 40) + 26, 16);
  const p = new SvgPainter(width, Math.max(...grids.map(({ h }) => h)) + 76, theme);
  p.text(8, 18, title, { size: 12, weight: 600 });
  let x = 8;
  names.forEach((name, i) => {
    const { w, h } = grids[i];
    p.text(x, 44, PART_NAMES[name], { size: 12, weight: 600 });
    paintMatrix(p, parts[name], { ...grids[i], x: x + 1, y: 53 });
    const said = parts[name].nature() || parts[name].sizeWords();
    p.text(x, 68 + h, said, { size: 10, colour: theme.soft });
    x += Math.max(w + 2, 40) + 26;
    p.text(x - 13, 74, "××=→"[i] ?? "", { size: 14, anchor: "middle", colour: theme.soft });
  });
  return p.node;
}
