import { button, el, write } from "./dom.js";

/**
 * A story: short chapters that move the page along. A chapter is data (`inweave/explore/story.py`): what is
 * said, and what the page shows meanwhile. Each begins from the page as it was made, so that they can be read
 * in any order, and whatever the reader changes in between is undone by the next one.
 * @param {Explorer} app @param {Chapter[]} chapters
 * @returns {Panel & {at: number, go: (chapter: number) => void}}
 */
export function story(app, chapters) {
  const title = el("h2", { tabindex: -1 });
  const text = el("p", {});
  const words = el("div", { class: "words", "aria-live": "polite" }, title, text);
  const marks = chapters.map((chapter, n) => {
    return button(String(n + 1), () => self.go(n), { title: chapter.title,
      "aria-label": `Chapter ${n + 1}: ${chapter.title}` });
  });
  const back = button("Back", () => self.go(self.at - 1));
  const next = button("Next", () => self.go(self.at + 1), { class: "next" });
  const close = button("×", () => self.go(-1), { "aria-label": "Close the story", title: "Close the story" });
  const step = (/** @type {KeyboardEvent} */ event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    self.go(Math.max(0, Math.min(chapters.length - 1, self.at + by)));
  };
  const node = el("section", { class: "story", "aria-label": "Story", onkeydown: step, hidden: true }, words,
    el("div", { class: "turn" }, el("div", { class: "marks" }, ...marks), back, next, close));

  /** Open a chapter; one that does not exist closes the story. @param {number} n */
  const go = (n) => {
    app.root.querySelector(".panel.told")?.classList.remove("told");
    self.at = chapters[n] ? n : -1;
    node.hidden = self.at < 0;
    if (self.at < 0) {
      app.changed();
      return;
    }
    const chapter = chapters[n];
    write(title, chapter.title);
    write(text, chapter.text);
    marks.forEach((mark, m) => {
      if (m === n) mark.setAttribute("aria-current", "step");
      else mark.removeAttribute("aria-current");
    });
    [back.disabled, next.disabled] = [n === 0, n === chapters.length - 1];
    if (document.activeElement instanceof HTMLButtonElement && document.activeElement.disabled) title.focus();
    tell(app, chapter);
    const panel = app.root.querySelector(`.panel-${CSS.escape(chapter.show)}`);
    panel?.classList.add("told");
    panel?.scrollIntoView({ block: "nearest" });
  };
  const self = { node, at: -1, go };
  return self;
}

/** Set the page to what a chapter shows. @param {Explorer} app @param {Chapter} chapter */
function tell(app, { network, layer, head, inputs, steps, off, difference }) {
  const { live, reader } = app;
  live.reset();
  for (const [name, value] of Object.entries(inputs)) live.set(name, 0, value);
  const [knob] = live.knobs[network];
  if (steps && knob) live.repeat(network, knob, steps);
  for (const [at, h] of off) live.toggle(network, { kind: "head", layer: at, head: h, at: null });
  app.look.difference = difference;
  if (live.able) app.runNow();
  [reader.net, reader.head] = [network, head];
  const { track } = reader;
  reader.choose(network, layer === "end" ? track.last : track.fromKey(layer));
  app.relayout();
}
