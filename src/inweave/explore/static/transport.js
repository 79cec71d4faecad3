import { ICONS, choice, el, iconButton, toggle, write } from "./dom.js";
import { count } from "./text.js";

const SPEEDS = [1, 2, 5, 10, 30, 60];

/** The scrubber, the buttons around it, and how the prompt is shown.
 *  @param {Explorer} app @returns {Panel & {play: (on?: boolean) => void}} */
export function transport(app) {
  const { reader, look } = app;
  const slider = el("input", { type: "range", min: 0, step: 1, class: "scrubber", "aria-label": "Layer",
    oninput: () => reader.goto(Number(slider.value)) });
  const where = el("output", { class: "where" });
  const ticks = el("div", { class: "ticks", "aria-hidden": "true" });
  const align = choice("Scrub by", [["layer", "layer"], ["share", "share of depth"]], (by) => {
    reader.alignBy(by);
    app.relayout();
  });
  const scale = choice("Colours", [["block", "per block"], ["global", "global"]], (value) => {
    app.restyle({ scale: value });
  });
  const over = choice("over", [["all", "all layers"], ["this", "this layer"]], (value) => {
    app.restyle({ fit: value === "this" });
  });
  const view = choice("View", [["matrix", "matrix"], ["blocks", "blocks"]], (value) => {
    app.restyle({ view: value });
  });
  const marks = toggle("changes", () => app.restyle({ marks: !look.marks }));
  const { button, speed, play } = player(app);
  const node = el("section", { class: "panel transport", "aria-label": "Position" },
    el("div", { class: "row" },
      iconButton("Input (Home)", ICONS.first, () => reader.goto(0)),
      iconButton("One layer back (←)", ICONS.back, () => reader.goto(reader.k - 1)),
      button,
      iconButton("One layer forward (→)", ICONS.next, () => reader.goto(reader.k + 1)),
      iconButton("Last layer (End)", ICONS.last, () => reader.goto(reader.times.last)),
      where, ...(app.several ? [align.node] : []), speed),
    el("div", { class: "track" }, slider, ticks),
    el("div", { class: "row options" }, scale.node, over.node, view.node, marks.node));
  const layout = () => {
    slider.max = String(reader.times.last);
    ticks.replaceChildren(...tickMarks(reader));
  };
  const draw = () => {
    slider.value = String(reader.k);
    write(where, whereText(reader.track));
    slider.setAttribute("aria-valuetext", whereText(reader.track));
    align.show(reader.times.align);
    scale.show(look.scale);
    over.show(look.fit ? "this" : "all");
    view.show(app.prompts[0].plan.view);
    marks.show(look.marks);
  };
  return { node, layout, draw, play };
}

/** The button that plays, and the choice of a speed. @param {Explorer} app */
function player(app) {
  const { reader } = app;
  const usual = SPEEDS.find((s) => s >= (reader.times.last + 1) / 15) ?? 60;
  const speed = el("select", { "aria-label": "Layers per second" },
    ...SPEEDS.map((s) => el("option", { value: s, text: `${s} / s`, selected: s === usual })));
  const button = iconButton("Play (space)", ICONS.play, () => play(), "icon play");
  let playing = false;
  const play = (on = !playing) => {
    if (on && reader.k >= reader.times.last) reader.k = 0;
    playing = on;
    button.title = on ? "Pause (space)" : "Play (space)";
    button.setAttribute("aria-label", button.title);
    button.querySelector("path")?.setAttribute("d", on ? ICONS.pause : ICONS.play);
    app.changed();
    let [last, owed] = [performance.now(), 0];
    const tick = (/** @type {number} */ now) => {
      if (!playing) return;
      owed += Math.min(0.25, (now - last) / 1000) * Number(speed.value);
      last = now;
      reader.goto(reader.k + Math.floor(owed));
      owed %= 1;
      if (reader.k >= reader.times.last) play(false);
      else requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  };
  return { button, speed, play };
}

/** Where a network stands, in words. @param {Track} track */
export function whereText(track) {
  const { at, numbers, layers, depth, depths } = track;
  let text = at ? `layer ${numbers[at]} of ${layers}` : `input, ${layers} layers to come`;
  if (track.skips[at]) text += ", skip added";
  if (depth !== layers) text += ` · ${depths[at]} of ${count(depth, "attention layer")}`;
  for (const { node, step } of track.root.locate(at).turns) {
    if (node.repeat > 1) text += ` · step ${step + 1} of ${node.repeat}`;
  }
  return text;
}

/** Where modules begin in the deepest network, and their steps. @param {Reader} reader */
function tickMarks({ times, deepest, tracks }) {
  /** @type {HTMLElement[]} */
  const marks = [];
  const add = (/** @type {number} */ position, /** @type {string} */ kind) => {
    const mark = el("span", { class: kind });
    mark.style.left = `${(100 * (times.placeOf(deepest, position) - 0.5)) / times.last}%`;
    marks.push(mark);
  };
  for (const module of tracks[deepest].root.body) {
    for (const part of module.repeat === 1 ? module.body : [module]) {
      const at = part.position([]);
      if (at > 1) add(at, "bound");
      for (let t = 1; t < part.repeat && part.repeat <= 60; t++) add(at + t * part.inner, "turn");
    }
  }
  return marks;
}
