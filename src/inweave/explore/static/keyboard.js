import { el } from "./dom.js";

const KEYS = [
  ["← →", "one layer back, forward"],
  ["Shift ← →", "one step of a repeated module back, forward"],
  ["Home, End", "the input, the last layer"],
  ["Space", "play, pause"],
  ["↑ ↓", "previous, next head of the layer"],
  ["n", "the other network, when two are compared"],
  ["m", "mark changed entries, or not"],
  ["s", "colour scale per block, or one for all"],
  ["v", "the prompt as one matrix, or block by block"],
  ["t", "light, dark"],
  ["c, Shift c", "next, previous chapter of a story"],
  ["Alt + arrows", "move from entry to entry of the prompt; Enter draws its curve"],
];

const GUIDE =
  "The prompt is a matrix: rows are tokens, columns are features, and named blocks own ranges of columns. " +
  "Each attention layer adds heads Q Kᵀ V to it. Entries that a layer changed have a dark frame; a dot is " +
  "an exact zero. Click an entry to see its value over depth. Where a block is drawn in bins, each cell " +
  "shows the entry of largest magnitude in it; click the block's name to see all entries. Data can be changed " +
  "(at the input, a click on an entry chooses it) and parts ablated: the networks run in this page.";

/** The dialog that explains page and keyboard. */
export function helpDialog() {
  const keys = KEYS.flatMap(([key, text]) => [el("dt", {}, el("kbd", { text: key })), el("dd", { text })]);
  return el("dialog", { class: "help", "aria-label": "Keyboard and reading guide" },
    el("h2", { text: "Reading this page" }), el("p", { text: GUIDE }),
    el("h2", { text: "Keyboard" }), el("dl", {}, ...keys),
    el("form", { method: "dialog" }, el("button", { text: "Close" })));
}

/** @param {Explorer} app @param {boolean} shift @returns {Record<string, () => void>} */
function actions(app, shift) {
  const { reader, look, prompts } = app;
  const step = (/** @type {number} */ by) => (shift ? reader.bigStep(by) : reader.goto(reader.k + by));
  return {
    ArrowRight: () => step(1),
    ArrowLeft: () => step(-1),
    Home: () => reader.goto(0),
    End: () => reader.goto(reader.times.last),
    PageDown: () => reader.bigStep(1),
    PageUp: () => reader.bigStep(-1),
    ArrowUp: () => reader.nextHead(-1),
    ArrowDown: () => reader.nextHead(1),
    m: () => app.restyle({ marks: !look.marks }),
    s: () => app.restyle({ scale: look.scale === "block" ? "global" : "block" }),
    v: () => app.restyle({ view: prompts[reader.net].plan.view === "matrix" ? "blocks" : "matrix" }),
    t: () => app.toggleTheme(),
    n: () => reader.nextNetwork(),
    c: () => app.story.go(app.story.at + 1),
    C: () => app.story.go(Math.max(0, app.story.at - 1)),
    "?": () => app.help.showModal(),
    " ": () => app.transport.play(),
    Enter: () => app.pin(reader.net, app.cursor),
  };
}

const MOVING = /^(Arrow|Page|Home$|End$)/; // keys that a slider has a use for itself

/** Do what a key asks for, unless it belongs to the element that has it.
 *  @param {Explorer} app @param {KeyboardEvent} event */
export function press(app, event) {
  const { key, altKey } = event;
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || app.help.open || target instanceof HTMLSelectElement) return;
  if (target instanceof HTMLInputElement && target.type !== "range") return;
  if (target instanceof HTMLInputElement && !target.classList.contains("scrubber") && MOVING.test(key)) return;
  if (altKey && !key.startsWith("Arrow")) return;
  if (key === " " && target.closest("button, summary, a")) return;
  if (key !== " " && !altKey && target.closest(".scroller.table")) return;
  if (key === "Enter" && !(target instanceof HTMLCanvasElement && app.cursor >= 0)) return;
  const action = altKey ? () => app.moveCursor(key) : actions(app, event.shiftKey)[key];
  if (!action) return;
  event.preventDefault();
  action();
  app.changed();
}
