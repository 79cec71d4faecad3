import { arrange, isBinned, sizeText } from "./arrange.js";
import { HALF } from "./colours.js";
import { el, write } from "./dom.js";
import { paintPrompt, pointAt } from "./heatmap.js";
import { behind } from "./inputs.js";
import { CanvasPainter, SvgPainter } from "./painter.js";
import { panel } from "./panel.js";
import { layerLines } from "./payload.js";
import { expression } from "./source.js";
import { short, textWidth } from "./text.js";

const BIN_RULE =
  "A cell that stands for several entries shows the one of largest magnitude. " +
  "Click a block to see every entry.";

/** The prompt as a heat map, which can be pointed at and clicked. @param {Explorer} app @param {number} i
 *  @returns {Panel & {canvas: HTMLCanvasElement, plan: Plan}} */
export function prompt(app, i) {
  const { reader, look } = app;
  const track = app.tracks[i];
  let expanded = -1;
  const under = (/** @type {MouseEvent} */ event) => {
    const box = canvas.getBoundingClientRect();
    return pointAt(track, self.plan, event.clientX - box.left, event.clientY - box.top);
  };
  const hover = (/** @type {MouseEvent} */ event) => {
    const found = under(event);
    canvas.style.cursor = found ? "pointer" : "default";
    app.showTip(found ? tipLines(track, found.box, found.entry) : [], event);
  };
  const press = (/** @type {MouseEvent} */ event) => {
    const found = under(event);
    reader.net = i;
    if (!found) app.changed();
    else {
      const { box, entry } = found;
      app.source = `block ${box.block}`;
      if (entry < 0 || isBinned(box)) {
        expanded = expanded === box.block ? -1 : box.block;
        app.relayout();
      } else {
        const from = track.at === 0 ? behind(track.data, entry) : null;
        if (from) app.data.choose?.(from.input, from.entry);
        app.pin(i, entry);
      }
    }
  };
  const leave = (/** @type {MouseEvent} */ event) => app.showTip([], event);
  const canvas = el("canvas", { tabindex: 0, role: "img", class: "map", onclick: press, onpointermove: hover,
    onpointerleave: leave });
  const paint = (/** @type {Painter} */ p) => {
    paintPrompt(p, track, self.plan, look, app.pins[i], i === reader.net ? app.cursor : -1);
  };
  const picture = () => {
    const { width, height } = self.plan;
    const p = new SvgPainter(Math.max(width, 500) + 16, height + 56, app.theme, 4, 26);
    p.text(4, -8, `${track.data.name}: ${heading.textContent}`, { size: 12, weight: 600 });
    paint(p);
    paintScale(p, height + 8, scaleWords(look, track));
    return p.node;
  };
  const { node, heading } = panel(app, { title: "Prompt", name: `prompt-${i}`, net: i, picture });
  const what = el("p", { class: "doing" });
  const scroller = el("div", { class: "scroller" }, canvas);
  const rule = el("p", { class: "soft rule", text: BIN_RULE });
  const legend = el("div", { class: "legend" });
  node.append(what, scroller, el("div", { class: "under" }, legend, rule));

  let room = 600;
  const measure = () => (room = scroller.clientWidth);
  const layout = () => {
    self.plan = arrange(track, Math.max(220, room - 2), look.view, expanded);
    rule.hidden = !self.plan.binned;
    // where each block has its own scale, it is the same for all networks: stated once, below the last
    const stated = look.scale === "global" || i === app.tracks.length - 1;
    legend.replaceChildren(...(stated ? legendParts(app, track) : []));
  };
  const draw = () => {
    paint(new CanvasPainter(canvas, self.plan.width, self.plan.height, app.theme));
    const less = track.seen(look) === track.now ? "" : ", less that of the whole network";
    write(heading, titleText(track) + less);
    write(what, doing(track));
    what.title = doing(track);
    node.classList.toggle("focused", app.several && i === reader.net);
  };
  const settle = () => {
    const after = `after layer ${track.key(track.at)}`;
    canvas.setAttribute("aria-label", `Heat map of the prompt ${after}; its numbers are in the table below`);
  };
  const self = { node, canvas, plan: arrange(track, 600, "auto", -1), measure, layout, draw, settle };
  return self;
}

/** @param {Track} track */
function titleText({ at, last, numbers, skips }) {
  if (!at) return "Prompt: input";
  return `Prompt after layer ${numbers[at]}${skips[at] ? " and skip" : ""}${at === last ? " (last)" : ""}`;
}

/** What the layer at a network's position does, in one line. @param {Track} track */
export function doing(track) {
  if (track.at === 0) return "The input: what the data fills in before any layer.";
  const { layer, skip } = track.root.locate(track.at);
  if (skip) return "The skip around the module adds the state it began with.";
  return layerLines(track.data.layers[layer]).join("   ·   ") || "pointwise layer";
}

/** What is said about an entry, or about a block.
 *  @param {Track} track @param {Box} box @param {number} entry */
function tipLines(track, box, entry) {
  const block = track.blocks[box.block];
  const { name, label, start } = block;
  const line = (/** @type {string} */ text) => el("span", { text });
  const made = line(expression(track, box.block));
  if (entry < 0) {
    const size = `${sizeText(block)}, columns ${start}:${start + block.cols}`;
    return [el("b", { text: name }), line(size), made];
  }
  const { row, col } = track.spot(entry);
  return [
    el("b", { text: label === name ? name : `${label} (${name})` }),
    line(`row ${row}, column ${col} (${col + start} of the prompt)`),
    el("span", { class: "number", text: String(track.now[entry]) }),
    ...(isBinned(box) ? [line("largest magnitude in its bin")] : []),
    ...(track.isNew(entry) ? [line(`was ${short(track.before[entry])} before this layer`)] : []),
    ...(track.clean ? [line(`${short(track.clean.now[entry])} in the whole network`)] : []),
    made,
  ];
}

/** What the ends of the colour scale stand for. @param {Looks} look @param {Track} track */
function scaleWords(look, track) {
  const all = look.scale === "global";
  const most = short(Math.max(...track.largest));
  const [low, high] = all && !look.fit ? [`−${most}`, most] : ["−max", "+max"];
  const over = [all ? "over all blocks" : "each block’s own", look.fit ? "in this layer" : "over all layers"];
  return { low, high, over: `max: ${over.join(", ")}` };
}

/** @param {Painter} p @param {number} x @param {number} y */
function paintStrip(p, x, y) {
  p.cells({ x, y, cell: 2, rows: 5, cols: 75 }, (_, c) => Math.round((c / 74) * 2 * HALF));
}

/** The colour scale below a picture. @param {Painter} p @param {number} y
 *  @param {ReturnType<scaleWords>} words */
function paintScale(p, y, { low, high, over }) {
  const start = 8 + textWidth(low, 11);
  p.text(4, y + 9, low);
  paintStrip(p, start, y);
  p.text(start + 156, y + 9, `${high}   ${over}`);
}

/** The colour scale. @param {Explorer} app @param {Track} track */
function legendParts({ look, theme }, track) {
  const canvas = el("canvas", { "aria-hidden": "true" });
  paintStrip(new CanvasPainter(canvas, 150, 10, theme), 0, 0);
  const { low, high, over } = scaleWords(look, track);
  const soft = (/** @type {string} */ text) => el("span", { class: "soft", text });
  const sample = (/** @type {string} */ kind, /** @type {string} */ text) => {
    return el("span", { class: "soft pair" }, el("span", { class: kind, "aria-hidden": "true" }), text);
  };
  return [
    soft(low), canvas, soft(high), el("span", { class: "soft rule", text: over }),
    sample("zero", "exactly 0"), sample("sample", "changed by this layer"),
    ...(track.broken < 0 ? [] : [sample("nan", "not a number")]),
  ];
}
