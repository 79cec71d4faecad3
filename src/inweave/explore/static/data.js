import { button, el, write } from "./dom.js";
import { warnings } from "./domains.js";
import { matrixGrid, paintMatrix } from "./heatmap.js";
import { accepts } from "./inputs.js";
import { CanvasPainter } from "./painter.js";
import { linesPicture, panel } from "./panel.js";
import { Matrix } from "./parts.js";
import { short } from "./text.js";

/**
 * The data, which can be changed: scalars and numbers of steps on sliders, entries of vectors and matrices
 * one at a time. The networks follow at once.
 * @typedef {{low: number, high: number, step: number | "any", ok: (value: number) => boolean,
 *   set: (value: number) => void}} Range
 */

const ARROWS = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
const REPLAY_ONLY = "This network is too large to be run here; the page shows the run that came with it.";

/** @param {Explorer} app
 *  @returns {Panel & {choose?: (input: Input, entry: number) => void}} */
export function dataPanel(app) {
  const { live } = app;
  const reset = button("as given", () => {
    live.reset();
    app.rerun();
  }, { title: "The data and steps that came with the page, nothing ablated" });
  const draw = button("draw new", () => {
    live.draw();
    app.rerun();
  }, { title: "Random data of the same size; scalars stay" });
  const lines = () => [...live.values].flatMap(([name, values]) => {
    return values.length === 1 ? [`${name} = ${values[0]}`] : [];
  });
  const picture = () => linesPicture(["Data", ...lines()], app.theme);
  draw.hidden = [...live.inputs.values()].every(({ kind }) => kind === "scalar");
  const controls = live.able ? [draw, reset] : [];
  const { node } = panel(app, { title: "Data", name: "data", picture, controls });
  const warning = el("p", { class: "warning small", role: "status" });
  const warn = () => write(warning, app.tracks.flatMap((track) => {
    return warnings(track).map((text) => (app.several ? `${track.data.name}: ${text}` : text));
  }).join(" "));
  node.append(warning);
  if (!live.able) {
    node.append(el("p", { class: "soft small", text: REPLAY_ONLY }));
    return { node, layout: warn };
  }
  const entries = cells(app);
  const parts = [...scalars(app), ...steps(app), entries];
  const note = el("p", { class: "soft small" });
  node.append(...parts.flatMap((part) => part.nodes), note);
  return {
    node,
    choose: entries.choose,
    layout: () => {
      for (const part of parts) part.show();
      warn();
      const changed = !live.asMade || live.ablations.some((list) => list.length);
      reset.disabled = !changed;
      write(note, changed ? "Computed by this page, in float64." : "");
      write(app.dataNote, live.edited ? "data changed on this page" : app.given);
    },
  };
}

/** A slider and a field for one number. What is typed is taken as it grows; where it ends as no number that can be
 *  taken, the one before counts, and not the beginning of what was typed.
 *  @param {string} label @param {Range} range */
function slider(label, { low, high, step, ok, set }) {
  let [used, kept] = [NaN, NaN];
  const use = (/** @type {number} */ value) => {
    if (value !== used) set(value);
    used = value;
  };
  const take = (/** @type {HTMLInputElement} */ from) => {
    const value = Number(from.value);
    const right = from.value !== "" && ok(value);
    from.setAttribute("aria-invalid", String(!right));
    if (right) use(value);
    else if (from === field) use(kept);
    write(refused, right ? "" : `cannot be that; ${kept} is in use`);
  };
  const keep = () => (kept = used);
  const leave = () => {
    keep();
    field.setAttribute("aria-invalid", "false");
    field.value = String(Number(used.toPrecision(5)));
    write(refused, "");
  };
  const refused = el("span", { class: "refused small", role: "status" });
  const bar = el("input", { type: "range", min: low, max: high, step, "aria-label": label,
    oninput: () => take(bar) });
  const field = el("input", { type: "number", step, "aria-label": `${label}, as a number`,
    onfocus: keep, oninput: () => take(field), onblur: leave });
  const name = el("span", { text: label });
  /** @param {number} value @param {string} [text] */
  const show = (value, text = label) => {
    write(name, text);
    used = value;
    if (document.activeElement !== bar || Number(bar.value) !== value) bar.value = String(value);
    if (document.activeElement !== field) field.value = String(Number(value.toPrecision(5)));
  };
  return { node: el("label", { class: "slider" }, name, bar, field, refused), bar, show };
}

/** @param {Explorer} app */
function scalars({ live, rerun }) {
  return [...live.inputs.values()].filter(({ kind }) => kind === "scalar").map((input) => {
    const value = () => live.values.get(input.name)?.[0] ?? 0;
    const high = 4 * Math.abs(value()) || 1;
    const low = input.sign === "positive" ? high / 1000 : value() < 0 ? -high : 0;
    const { node, show } = slider(input.label, {
      low, high, step: "any", ok: (v) => accepts(input, v),
      set: (v) => {
        live.set(input.name, 0, v);
        rerun();
      },
    });
    return { nodes: [node], show: () => show(value()) };
  });
}

/** The number of steps of each loop, or that it is in the weights. @param {Explorer} app */
function steps(app) {
  return app.tracks.flatMap(({ data: { name, report } }, i) => {
    const statics = /** @type {[string, number][]} */ (Object.entries(report.statics));
    if (app.live.knobs[i].length) return app.live.knobs[i].map((knob) => stepsOf(app, i, knob));
    const said = statics.map(([key, value]) => `${key} = ${value}`).join(", ");
    const text = `${app.several ? name : "This network"}: ${said} is in the weights, not in a loop.`;
    return said ? [{ nodes: [el("p", { class: "soft small", text })], show: () => undefined }] : [];
  });
}

/** @param {Explorer} app @param {number} i @param {Knob} knob
 *  @returns {{nodes: HTMLElement[], show: () => void}} */
function stepsOf({ live, several, rerun }, i, knob) {
  const { name, made } = knob;
  const { node, show } = slider(several ? `${name} (${String.fromCharCode(65 + i)})` : name, {
    low: 1, high: Math.max(20, 3 * made), step: 1,
    ok: (v) => Number.isInteger(v) && v > 0 && live.affords(i, knob, v),
    set: (v) => {
      live.repeat(i, knob, v);
      rerun();
    },
  });
  return { nodes: [node], show: () => show(made + knob.more) };
}

/** Vectors and matrices: pick an entry, then move it. @param {Explorer} app */
function cells(app) {
  const { live } = app;
  const large = [...live.inputs.values()].filter(({ kind }) => kind !== "scalar");
  let chosen = { input: large[0], entry: 0 };
  const value = () => live.values.get(chosen.input?.name)?.[chosen.entry] ?? 0;
  const largest = (/** @type {Input} */ { name }) => {
    return Float64Array.from(live.values.get(name) ?? []).reduce((m, v) => Math.max(m, Math.abs(v)), 0) || 1;
  };
  const set = (/** @type {number} */ v) => {
    live.set(chosen.input.name, chosen.entry, v);
    app.rerun();
  };
  const one = slider("entry", { low: -1, high: 1, step: "any", ok: (v) => accepts(chosen.input, v), set });
  const show = () => {
    if (!large.length) return;
    const most = 2 * largest(chosen.input);
    if (document.activeElement !== one.bar) {
      one.bar.min = String(chosen.input.sign === "any" ? -most : 0);
      one.bar.max = String(most);
    }
    one.show(value(), entryText(chosen.input, chosen.entry));
    for (const figure of figures) figure.show();
  };
  const choose = (/** @type {Input} */ { name }, /** @type {number} */ entry) => {
    const input = large.find((one) => one.name === name);
    if (!input) return;
    chosen = { input, entry };
    one.bar.setAttribute("aria-label", entryText(input, entry));
    app.say(`${entryText(input, entry)} = ${short(value())}`);
    show();
  };
  const figures = large.map((input) => cellsOf(app, input, () => chosen, choose, set));
  const nodes = large.length ? [el("div", { class: "cells" }, ...figures.map((f) => f.node)), one.node] : [];
  return { nodes, show, choose };
}

/** @param {Input} input @param {number} entry */
function entryText({ label, kind, cols }, entry) {
  const [row, col] = [Math.floor(entry / cols), entry % cols];
  return kind === "vector" ? `${label}[${row}]` : `${label}[${row}, ${col}]`;
}

/** One input as cells: click one to choose it, drag it sideways to change it, arrows move the choice.
 *  @param {Explorer} app @param {Input} input @param {() => {input: Input, entry: number}} chosen
 *  @param {(input: Input, entry: number) => void} choose @param {(value: number) => void} set */
function cellsOf(app, input, chosen, choose, set) {
  const { rows, cols, label } = input;
  const values = () => Float64Array.from(app.live.values.get(input.name) ?? []);
  const flat = input.kind === "vector"; // drawn as a row
  const shape = flat ? { rows: 1, cols: rows } : { rows, cols };
  const matrix = () => new Matrix(shape.rows, shape.cols, values());
  const grid = { ...matrixGrid(matrix(), 15), x: 2, y: 2 };
  /** @type {{x: number, value: number, scale: number} | null} */
  let drag = null;
  const at = (/** @type {PointerEvent} */ event) => {
    const { left, top } = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - left - 2, event.clientY - top - 2];
    const [c, r] = [Math.floor(x / grid.cell), Math.floor(y / grid.cell)];
    const [row, col] = [Math.min(r * grid.binR, shape.rows - 1), Math.min(c * grid.binC, shape.cols - 1)];
    return Math.max(0, row) * shape.cols + Math.max(0, col);
  };
  const down = (/** @type {PointerEvent} */ event) => {
    choose(input, at(event));
    const all = values();
    const scale = all.reduce((m, v) => Math.max(m, Math.abs(v)), 0) || 1;
    drag = { x: event.clientX, value: all[chosen().entry], scale };
    canvas.setPointerCapture(event.pointerId);
  };
  const move = (/** @type {PointerEvent} */ event) => {
    if (!drag || !(event.buttons & 1) || Math.abs(event.clientX - drag.x) < 3) return;
    const value = drag.value + ((event.clientX - drag.x) / 60) * drag.scale;
    if (accepts(input, value)) set(value);
  };
  const press = (/** @type {KeyboardEvent} */ event) => {
    const by = ARROWS[/** @type {keyof ARROWS} */ (event.key)];
    if (!by || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    const mine = chosen().input === input ? chosen().entry : -1;
    const [row, col] = [Math.floor(mine / shape.cols) + by[0], (mine % shape.cols) + by[1]];
    const inside = row >= 0 && row < shape.rows && col >= 0 && col < shape.cols;
    if (mine < 0) choose(input, 0);
    else if (inside) choose(input, row * shape.cols + col);
  };
  const canvas = el("canvas", { tabindex: 0, role: "img", onpointerdown: down, onpointermove: move,
    onpointerup: () => (drag = null), onkeydown: press,
    "aria-label": `${label}: arrow keys choose an entry, the slider below changes it` });
  const size = input.kind === "vector" ? String(rows) : `${rows} × ${cols}`;
  const show = () => {
    const p = new CanvasPainter(canvas, grid.w + 4, grid.h + 4, app.theme);
    paintMatrix(p, matrix(), grid);
    const { input: own, entry } = chosen();
    if (own !== input) return;
    const [r, c] = [Math.floor(entry / shape.cols / grid.binR), Math.floor((entry % shape.cols) / grid.binC)];
    const box = /** @type {Rect} */ ([2 + c * grid.cell, 2 + r * grid.cell, grid.cell, grid.cell]);
    p.boxes([box], { stroke: app.theme.accent, width: 2 });
  };
  const soft = el("span", { class: "soft", text: ` ${size}` });
  const caption = el("figcaption", {}, el("b", { text: label }), soft);
  return { node: el("figure", {}, caption, canvas), show };
}
