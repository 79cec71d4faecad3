import { el, write } from "./dom.js";
import { PART_NAMES } from "./parts.js";

const MOST = 1200; // entries of a prompt that is shown whole

/** The numbers behind the colours: of the prompt or one block, and of the parts of the chosen head.
 *  @param {Explorer} app @returns {Panel} */
export function numbers(app) {
  const sources = el("select", { "aria-label": "Which numbers", onchange: () => {
    app.source = sources.value;
    settle();
  } });
  const table = el("table", { class: "numbers" });
  const caption = el("p", { class: "soft" });
  const region = { role: "region", "aria-label": "Numbers of the prompt" };
  const node = el("details", { class: "panel numbers-panel", open: true, ontoggle: () => settle() },
    el("summary", {}, el("h2", { text: "Numbers" })),
    el("div", { class: "bar" }, el("label", {}, "Show ", sources), caption),
    el("div", { class: "scroller table", tabindex: 0, ...region }, table));
  let offered = "";

  const settle = () => {
    const { track } = app.reader;
    const options = sourceNames(track, app.parts);
    if (!options.some(([value]) => value === app.source)) app.source = options[0][0];
    if (String(options) !== offered) {
      offered = String(options);
      sources.replaceChildren(...options.map(([value, text]) => el("option", { value, text })));
    }
    sources.value = app.source;
    if (!node.open) return;
    const layer = track.key(track.at);
    const title = `${sources.selectedOptions[0].text} after layer ${layer}`;
    table.dataset.layer = layer;
    table.dataset.source = app.source;
    table.replaceChildren(el("caption", { class: "hidden", text: title }),
      ...tableParts(sourceOf(track, app.parts, app.source, track.seen(app.look))));
    const part = app.source.startsWith("part");
    const exact = part || !app.live.asStored ? "computed by this page from the prompt and the weights"
      : track.data.rounded ? "rounded to single precision" : "exact, as the network computed them";
    const bold = part || !track.at ? "" : "; bold: changed by this layer";
    const less = track.seen(app.look) === track.now || part ? "" : ", less what the whole network computes";
    const where = track.at ? `after layer ${layer}` : "input";
    write(caption, `${track.data.name}${less}, ${where}; ${exact}${bold}`);
  };
  return { node, settle };
}

/** Values and names of what can be chosen. @param {Track} track @param {Parts | null} parts */
function sourceNames(track, parts) {
  return [
    ...(track.tokens * track.width <= MOST ? [["prompt", "the whole prompt"]] : []),
    ...track.blocks.map((b, i) => [`block ${i}`, b.label]),
    ...(parts ? Object.entries(PART_NAMES).map(([id, name]) => [`part ${id}`, `head: ${name}`]) : []),
  ];
}

/** The numbers of a source, its columns in named groups.
 *  @param {Track} track @param {Parts | null} parts @param {string} name @param {Float64Array} values */
function sourceOf(track, parts, name, values) {
  const [kind, which] = name.split(" ");
  if (kind === "part" && parts) {
    const id = /** @type {PartName} */ (which);
    const { rows, cols } = parts[id];
    const groups = [{ label: PART_NAMES[id], cols }];
    return { groups, rows, values: parts[id].values, width: cols, start: 0, isNew: () => false };
  }
  const blocks = kind === "block" ? [track.blocks[Number(which)]] : track.blocks;
  const whole = kind !== "block" || track.tall[Number(which)];
  const rows = whole ? track.tokens : blocks[0].rows;
  const isNew = (/** @type {number} */ entry) => track.isNew(entry);
  return { groups: blocks, rows, values, width: track.width, start: blocks[0].start, isNew };
}

/** @param {ReturnType<sourceOf>} source */
function tableParts({ groups, rows, values, width, start, isNew }) {
  /** @param {string} text @param {Record<string, any>} [more] */
  const th = (text, more) => el("th", { text, ...more });
  const names = groups.map((g) => th(g.label, { colspan: g.cols, scope: "colgroup", class: "group" }));
  const columns = groups.flatMap((g) => [...Array(g.cols).keys()]);
  const heads = columns.map((c) => th(String(c), { scope: "col", class: c ? "" : "edge" }));
  const lines = [...Array(rows).keys()].map((r) => {
    const cells = columns.map((column, c) => {
      const entry = r * width + start + c;
      const value = values[entry];
      const kinds = [value === 0 && "zero", isNew(entry) && "new", column === 0 && "edge"].filter(Boolean);
      const text = Object.is(value, -0) ? "-0" : String(value);
      return el("td", { text, class: kinds.join(" ") || null });
    });
    return el("tr", {}, th(String(r), { scope: "row" }), ...cells);
  });
  const first = el("tr", {}, th(""), ...names);
  const second = el("tr", {}, th("row", { scope: "col" }), ...heads);
  return [el("thead", {}, first, second), el("tbody", {}, ...lines)];
}
