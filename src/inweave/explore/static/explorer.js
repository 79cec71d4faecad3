import { ablate } from "./ablate.js";
import { readTheme } from "./colours.js";
import { allCurves } from "./curves.js";
import { dataPanel } from "./data.js";
import { ICONS, button, chip, el, iconButton, write } from "./dom.js";
import { warnings } from "./domains.js";
import { helpDialog, press } from "./keyboard.js";
import { readLink, writeLink } from "./link.js";
import { Live } from "./live.js";
import { numbers } from "./numbers.js";
import { outline } from "./outline.js";
import { partsOf } from "./parts.js";
import { product } from "./product.js";
import { doing, prompt } from "./prompt.js";
import { Reader } from "./reader.js";
import { report } from "./report.js";
import { linkHeads, source } from "./source.js";
import { story } from "./story.js";
import { count, short } from "./text.js";
import { Track } from "./track.js";
import { transport, whereText } from "./transport.js";

const MOVES = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };

/** The page: it owns what is shown and how, and tells its panels when to draw. */
export class Explorer {
  /** @type {Looks} */
  look = { scale: "block", fit: false, marks: true, view: "auto", order: "auto", difference: false };
  /** @type {Theme} */ theme;
  /** @type {"auto" | "light" | "dark"} */ themeChoice = "auto";
  dark = globalThis.matchMedia("(prefers-color-scheme: dark)");
  /** @type {Parts | null} the matrices of the chosen head */ parts = null;
  cursor = -1; // an entry of the prompt
  source = ""; // of the table of numbers
  frameTime = 0;
  runTime = 0;
  pending = 0;
  running = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */ settling;
  ending = new AbortController();
  watch = new ResizeObserver(() => this.relayout());
  help = helpDialog();
  said = el("p", { class: "hidden", "aria-live": "polite" });
  tip = el("div", { class: "tip", role: "tooltip", hidden: true });

  /** @param {HTMLElement} root @param {Payload} payload @param {Model} model @param {boolean} page */
  constructor(root, payload, model, page) {
    this.root = root;
    this.model = model;
    this.page = page;
    this.given = payload.inputs;
    this.dataNote = el("span", { class: "soft data", text: this.given });
    this.tracks = payload.networks.map((data) => new Track(data));
    for (const track of this.tracks) track.load(track.stored(), track.references());
    this.countLayers();
    this.live = new Live(this.tracks);
    this.several = this.tracks.length > 1;
    this.pins = this.tracks.map(() => /** @type {number[]} */ ([])); // entries whose curves are drawn
    this.reader = new Reader(this.tracks, () => this.changed());
    this.transport = transport(this);
    this.prompts = this.tracks.map((_, i) => prompt(this, i));
    this.charts = allCurves(this);
    const sources = this.tracks.map((_, i) => source(this, i));
    const outlines = this.tracks.map((_, i) => outline(this, i));
    const left = this.tracks.flatMap((_, i) => [sources[i], outlines[i]]);
    const ablation = this.live.able ? [ablate(this)] : [];
    const centre = [this.transport, ...this.prompts, product(this), ...ablation, numbers(this)];
    this.data = dataPanel(this);
    const side = [this.data, ...this.charts, ...this.tracks.map((_, i) => report(this, i))];
    /** @type {Panel[]} */
    this.panels = [...sources, ...outlines, ...centre, ...side]; // the room of one depends on the other
    const nodes = (/** @type {Panel[]} */ panels) => panels.map((panel) => panel.node);
    this.centre = el("main", { class: "centre" }, ...nodes(centre));
    this.side = el("aside", { class: "side", "aria-label": "Curves and report" }, ...nodes(side));
    const nav = el("nav", { class: "left", "aria-label": "Layers of the network" }, ...nodes(left));
    const body = el("div", { class: "body" }, nav, this.centre, this.side);
    this.story = story(this, payload.story);
    const top = header(this, payload.story.length > 0);
    this.panels.push(top);
    const frame = el("div", { class: "frame" }, top.node, this.story.node, body);
    root.classList.add("inweave");
    root.setAttribute("role", "application");
    root.setAttribute("aria-label", "Network explorer");
    root.replaceChildren(frame, this.tip, this.help, this.said);
    this.applyTheme();
    this.listen();
    if (page) this.followLink();
    if (page && payload.story.length && !globalThis.location.hash) this.story.go(0);
    this.settle();
  }

  listen() {
    const until = { signal: this.ending.signal };
    this.dark.addEventListener("change", () => this.applyTheme(), until);
    if (this.page) {
      globalThis.addEventListener("hashchange", () => this.followLink(), until);
      globalThis.addEventListener("beforeprint", () => this.setTheme("light"), until);
      globalThis.addEventListener("afterprint", () => this.applyTheme(), until);
    }
    const keys = /** @type {HTMLElement} */ (this.page ? document : this.root);
    keys.addEventListener("keydown", (event) => press(this, event), until);
    linkHeads(this.root, this.ending.signal);
    this.watch.observe(this.centre);
    this.watch.observe(this.side);
  }

  destroy() {
    this.transport.play(false);
    this.ending.abort();
    this.watch.disconnect();
    clearTimeout(this.settling);
    cancelAnimationFrame(this.pending);
    cancelAnimationFrame(this.running);
  }

  /** Where no network has attention layers, depth counts all layers. */
  countLayers() {
    if (!this.tracks.some((t) => t.depth)) this.tracks.forEach((t) => (t.depths = t.numbers));
  }

  // -- drawing --------------------------------------------------------------------------------------------
  /** Something changed: draw in the next frame, and settle when changes stop. */
  changed() {
    this.pending ||= requestAnimationFrame(() => {
      this.pending = 0;
      this.draw();
    });
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.settle(), 140);
  }

  /** Draw everything that follows the scrubber. */
  draw() {
    const begun = performance.now();
    this.tracks.forEach((track, i) => track.show(this.reader.position(i)));
    const { layer, chosen } = this.reader.selected();
    const head = layer?.heads?.[chosen];
    this.parts = head ? partsOf(this.reader.track, head) : null;
    for (const panel of this.panels) panel.draw?.();
    this.frameTime = performance.now() - begun;
  }

  /** Sizes or looks changed: arrange and draw everything now. */
  relayout() {
    this.changed();
    if (!this.centre.clientWidth) return;
    cancelAnimationFrame(this.pending);
    this.pending = 0;
    for (const panel of this.panels) panel.measure?.();
    for (const panel of this.panels) panel.layout?.();
    this.draw();
  }

  /** What follows when changes stop. */
  settle() {
    const { model, reader } = this;
    for (const panel of this.panels) panel.settle?.();
    if (this.page) writeLink(this);
    const answer = this.live.asStored ? "" : ` ${answerText(reader.track)}`; // a change is heard by its result
    this.say([`${whereText(reader.track)}.`, doing(reader.track) + answer, ...warnings(reader.track)].join(" "));
    const layer = reader.track.numbers[reader.position()];
    if (model.get("layer") === layer && model.get("head") === reader.head) return;
    model.set("layer", layer);
    model.set("head", reader.head);
    model.save_changes();
  }

  /** Tell those who listen instead of look. @param {string} text */
  say(text) {
    write(this.said, text);
  }

  /** @param {HTMLElement[]} lines none hide it @param {MouseEvent} event */
  showTip(lines, event) {
    const { root, tip } = this;
    tip.hidden = !lines.length;
    tip.replaceChildren(...lines);
    const { left, top, width } = root.getBoundingClientRect();
    const { offsetWidth: w, offsetHeight: h } = tip;
    const over = event.clientX - left + 14 + w > width - 8;
    const below = event.clientY + h + 20 > globalThis.innerHeight;
    tip.style.left = `${event.clientX - left + (over ? -w - 12 : 14)}px`;
    tip.style.top = `${event.clientY - top + (below ? -h - 12 : 16)}px`;
  }

  /** Data or networks changed: run them in the next frame, once, and show what comes of it. */
  rerun = () => {
    this.running ||= requestAnimationFrame(() => {
      this.running = 0;
      const begun = performance.now();
      this.runNow();
      this.relayout();
      this.runTime = performance.now() - begun;
    });
  };

  runNow() {
    this.live.run();
    this.countLayers();
    this.reader.alignBy(this.reader.times.align);
  }

  // -- changing what is shown -----------------------------------------------------------------------------
  followLink() {
    readLink(this);
    this.relayout();
  }

  /** @param {Partial<Looks>} look */
  restyle(look) {
    Object.assign(this.look, look);
    this.relayout();
  }

  /** Draw an entry's curve, or no longer. @param {number} i @param {number} entry */
  pin(i, entry) {
    const pins = this.pins[i];
    this.pins[i] = pins.includes(entry) ? pins.filter((e) => e !== entry) : [...pins, entry];
    this.relayout();
  }

  /** Move from entry to entry of the prompt. @param {string} key */
  moveCursor(key) {
    const { width, tokens, now } = this.reader.track;
    const [down, right] = MOVES[/** @type {keyof MOVES} */ (key)];
    const [row, col] = [Math.floor(this.cursor / width) + down, (this.cursor % width) + right];
    if (this.cursor < 0) this.cursor = 0;
    else if (row >= 0 && row < tokens && col >= 0 && col < width) this.cursor = row * width + col;
    this.say(`${this.reader.track.entryName(this.cursor)} = ${short(now[this.cursor])}`);
  }

  applyTheme() {
    const system = this.dark.matches ? "dark" : "light";
    this.setTheme(this.themeChoice === "auto" ? system : this.themeChoice);
  }

  /** @param {"light" | "dark"} name */
  setTheme(name) {
    this.root.dataset.theme = name;
    this.theme = readTheme(this.root, name);
    this.relayout();
  }

  toggleTheme() {
    this.themeChoice = this.theme.name === "dark" ? "light" : "dark";
    this.applyTheme();
  }
}

/** The last answers, in words. @param {Track} track */
function answerText({ answers, end }) {
  return answers.filter(({ cells }) => cells.length === 1).map(({ name, cells: [cell] }) => {
    return `${name} ${short(end[cell])}`;
  }).join(", ");
}

/** @param {Explorer} app @param {boolean} told whether there is a story @returns {Panel} */
function header(app, told) {
  const sizes = app.tracks.map(() => el("span", { class: "soft" }));
  const names = app.tracks.map(({ data: { name } }, i) => {
    return el("div", { class: "name" }, ...(app.several ? [chip(i)] : []), el("strong", { text: name }), sizes[i]);
  });
  const layout = () => app.tracks.forEach(({ depth, data: { report: r } }, i) => {
    const prompt = `${count(r.tokens, "token")} × ${count(r.width, "column")}`;
    write(sizes[i], `${count(depth, "attention layer")} · ${count(r.heads, "head")} · ${prompt}`);
  });
  const mark = el("span", { class: "mark", "aria-hidden": "true" });
  const begin = button("Story", () => app.story.go(app.story.at < 0 ? 0 : -1), { class: "begin" });
  const tools = el("div", { class: "tools" }, ...(told ? [begin] : []),
    iconButton("Light or dark (t)", ICONS.theme, () => app.toggleTheme()),
    iconButton("Keyboard and reading guide (?)", ICONS.help, () => app.help.showModal()));
  const node = el("header", {}, el("div", { class: "brand" }, mark, el("h1", { text: "inweave" })),
    el("div", { class: "names" }, ...names), app.dataNote, tools);
  return { node, layout };
}
