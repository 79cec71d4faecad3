import { lineChart } from "./chart.js";
import { chip, el, svg, toggle, write } from "./dom.js";
import { chartPicture, linesPicture, panel } from "./panel.js";
import { clip, short } from "./text.js";

/**
 * Curves over depth: of answers and pinned entries, of the distance to the reference, of norms.
 * @typedef {{name: string, values: Float64Array}} Line
 * @typedef {{title: string, name: string, log: boolean, empty: string, note?: () => string,
 *   lines: (track: Track, i: number) => (Line | null)[]}} Kind
 * @typedef {Panel & {body: HTMLElement, chart: ReturnType<lineChart> | null, series: Series[],
 *   owners: number[]}} Curves
 */

const CARRIED = " What a loop carries is compared with where the loop leaves it.";
const DASHES = ["none", "6 3", "2 2", "8 2 2 2"];

/** @param {Explorer} app @returns {Curves[]} */
export function allCurves(app) {
  const { several, pins } = app;
  const source = app.tracks.find((t) => t.data.reference)?.data.reference;
  /** @type {Kind} */
  const values = {
    title: "Values over depth", name: "values", log: false,
    empty: "This network names no outputs; click an entry of the prompt to follow it.",
    lines: (track, i) => [
      ...answerLines(track, several ? 2 : 5),
      ...pins[i].map((entry) => ({ name: track.entryName(entry), values: track.history(entry) })),
    ],
  };
  const carries = app.tracks.some((t) => t.carried.length);
  /** @type {Kind} */
  const distances = {
    title: "Distance to reference", name: "distance", log: true, empty: "There is no reference.",
    note: () => `2-norm of answer − reference. ${references(app, source ?? "")}${carries ? CARRIED : ""}`,
    lines: ({ answers, blocks, carried }) => [
      ...answers.map(({ name, distances: values }) => values && { name, values }),
      ...carried.map(({ block, distances: values }) => ({ name: blocks[block].label, values })),
    ].slice(0, several ? 3 : 7),
  };
  /** @type {Kind} */
  const norms = {
    title: "Block norms", name: "norms", log: true, empty: "No block changes.",
    lines: (track) => track.blocks.map((block, b) => ({ name: block.label, values: track.norms[b] }))
      .filter((_, b) => track.varies[b]).slice(0, 7),
  };
  /** @type {Kind} */
  const effect = {
    title: "Effect of the ablation", name: "effect", log: true, empty: "",
    note: () => "2-norm of block − the same block in the whole network.",
    lines: (track) => track.blocks.map((block, b) => {
      const moved = track.effect?.norms[b];
      return moved?.some((v) => v !== 0) ? { name: block.label, values: moved } : null;
    }).filter(Boolean).slice(0, 7),
  };
  return [values, effect, ...(source ? [distances] : []), norms].map((kind) => curves(app, kind));
}

/** What answers are compared with: each network's own, where they differ.
 *  @param {Explorer} app @param {string} source what came with the page */
function references({ tracks }, source) {
  const judges = tracks.map(({ judge, run: { left } }) => {
    return judge || source + (left ? `; but ${left.net.name} is outside its domain, where the network has no answer` : "");
  });
  if (new Set(judges).size === 1) return `Reference: ${judges[0]}.`;
  return tracks.map(({ data: { name } }, i) => `Reference of ${name}: ${judges[i]}.`).join(" ");
}

/** The first entries of the answers. @param {Track} track @param {number} most @returns {Line[]} */
function answerLines(track, most) {
  const entries = track.answers.flatMap(({ name, kind, cols, cells }) => {
    return cells.slice(0, most).map((entry, j) => {
      const [r, c] = [Math.floor(j / cols), j % cols];
      return { name: name + ({ scalar: "", vector: `[${r}]` }[kind] ?? `[${r}, ${c}]`), entry };
    });
  });
  return entries.slice(0, most).map(({ name, entry }) => ({ name, values: track.history(entry) }));
}

/** @param {Explorer} app @param {Kind} kind @returns {Curves} */
function curves(app, kind) {
  const { reader } = app;
  let { log } = kind;
  /** @type {HTMLElement[]} */
  let spans = [];
  const scrub = (/** @type {PointerEvent} */ event) => {
    if (!self.chart || (event.type === "pointermove" && !(event.buttons & 1))) return;
    const depth = self.chart.depthAt(event.clientX - body.getBoundingClientRect().left);
    reader.goto(reader.times.placeAt(depth));
  };
  const body = el("div", { class: "chart", onpointerdown: scrub, onpointermove: scrub });
  const keys = el("ul", { class: "keys" });
  const logs = toggle("log", () => {
    log = !log;
    app.relayout();
  });
  const { node } = panel(app, { title: kind.title, name: kind.name, controls: [logs.node],
    picture: () => (self.chart ? chartPicture(kind.title, self.chart.node, legend(), app.theme)
      : linesPicture([kind.empty], app.theme)) });
  const legend = () => self.series.map((s, j) => ({
    ...s, name: app.several ? `${s.name}, ${app.tracks[self.owners[j]].data.name}` : s.name,
  }));
  node.append(body, keys);
  const note = el("p", { class: "soft small" });
  if (kind.note) node.append(note);

  let room = 300;
  const measure = () => (room = body.clientWidth);
  const layout = () => {
    const lines = app.tracks.flatMap((track, i) => kind.lines(track, i).flatMap((line, j) => {
      return line ? [styled(app, line, i, j)] : [];
    }));
    self.series = lines.map(({ series }) => series);
    self.owners = lines.map(({ owner }) => owner);
    const some = self.series.some(({ values }) => Array.from(values).some((v) => Number.isFinite(v)));
    self.chart = some ? depthChart(app, kind.name, log, self.series, room) : null;
    const why = lines.length ? "No value is finite." : kind.empty;
    body.replaceChildren(self.chart?.node ?? el("p", { class: "soft", text: why }));
    node.hidden = !lines.length && !kind.empty;
    write(note, kind.note?.() ?? "");
    spans = lines.map(() => el("span", { class: "value" }));
    keys.replaceChildren(...lines.map(({ series: s, owner }, j) => {
      const name = el("span", { class: "key", text: clip(s.name, 22) });
      return el("li", { title: s.name }, ...(app.several ? [chip(owner)] : []), swatch(s), name, spans[j]);
    }));
  };
  const draw = () => {
    logs.show(log);
    const ks = self.owners.map((i) => app.tracks[i].at);
    self.chart?.mark(ks);
    spans.forEach((span, j) => write(span, short(Number(self.series[j].values[ks[j]]))));
  };
  /** @type {Curves} */
  const self = { node, body, chart: null, series: [], owners: [], measure, layout, draw };
  return self;
}

/** A line and its network: among several, a network has one colour and its lines are told apart by dashes.
 *  @param {Explorer} app @param {Line} line @param {number} owner @param {number} j */
function styled({ tracks, several, theme }, line, owner, j) {
  const colour = theme.lines[(several ? owner : j) % theme.lines.length];
  const dash = several ? DASHES[j % DASHES.length] : "none";
  return { series: { ...line, colour, dash, xs: tracks[owner].depths }, owner };
}

/** @param {Explorer} app @param {string} name @param {boolean} logY @param {Series[]} series
 *  @param {number} width */
function depthChart({ tracks, several, theme }, name, logY, series, width) {
  const depths = tracks.map((t) => t.depth + 1);
  const logX = several && Math.max(...depths) > 6 * Math.min(...depths);
  const what = tracks.every((t) => t.depth === t.layers) ? "layers" : "attention layers";
  return lineChart({
    width: Math.max(220, width), height: 148, theme, series, logX, logY, depth: true,
    xLabel: `${what} executed${logX ? ", log scale" : ""}`,
    label: `${name} over depth: ${series.map((s) => s.name).join(", ")}`,
  });
}

/** @param {Series} series */
function swatch({ colour, dash }) {
  const line = { x1: 0, x2: 18, y1: 4, y2: 4, stroke: colour, "stroke-width": 2.5, "stroke-dasharray": dash };
  return svg("svg", { width: 18, height: 8, "aria-hidden": "true" }, svg("line", line));
}
