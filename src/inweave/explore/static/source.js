import { button, el } from "./dom.js";
import { linesPicture, panel } from "./panel.js";

/**
 * The program's lines beside the heads that compute them. Whatever stands for heads, a line or a head of the
 * outline, names them in `data-heads`; what is pointed at lights up all that share a head with it.
 */

/** A head, or the functions of a pointwise layer, as an attribute. @param {HeadAt} at */
function headKey([layer, head]) {
  return `${layer}.${head ?? "f"}`;
}

/** The attributes of what stands for some heads of a network. @param {number} i @param {HeadAt[]} heads */
export function standsFor(i, heads) {
  return { "data-net": i, "data-heads": heads.map(headKey).join(" ") };
}

/** @param {HTMLElement} node */
function headsOf(node) {
  return node.dataset.heads?.split(" ") ?? [];
}

/** Light up what shares a head with an element, or nothing. @param {HTMLElement} root
 *  @param {HTMLElement | null} pointed */
function lightUp(root, pointed) {
  for (const node of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("[data-heads]"))) {
    const shared = pointed && node !== pointed && node.dataset.net === pointed.dataset.net
      && headsOf(node).some((key) => headsOf(pointed).includes(key));
    node.classList.toggle("linked", Boolean(shared));
  }
}

/** Follow pointer and focus. @param {HTMLElement} root @param {AbortSignal} signal */
export function linkHeads(root, signal) {
  for (const kind of ["pointerover", "focusin"]) {
    root.addEventListener(kind, (event) => {
      const target = /** @type {HTMLElement} */ (event.target);
      lightUp(root, target.closest("[data-heads]"));
    }, { signal });
  }
}

/** The lines of a network's program. A click goes to the heads of a line, one after the other.
 *  @param {Explorer} app @param {number} i @returns {Panel} */
export function source(app, i) {
  const { reader } = app;
  const track = reader.tracks[i];
  const { lines, why } = track.data.source;
  const chosen = () => {
    const { layer } = track.root.locate(track.at);
    const { kind } = track.data.layers[layer] ?? {};
    return headKey([layer, kind === "pointwise" ? null : reader.selected().chosen]);
  };
  const go = (/** @type {HeadAt[]} */ heads) => {
    const here = heads.findIndex((at) => headKey(at) === chosen());
    const [layer, head] = heads[(here + 1) % heads.length];
    const node = track.root.find(layer);
    if (node) reader.visit(i, node, head ?? 0);
  };
  const rows = lines.map(({ text, heads }) => {
    const code = text.trimStart();
    const node = heads.length ? button(code, () => go(heads), { class: "code", ...standsFor(i, heads) })
      : el("span", { class: "code", text: code });
    node.style.marginLeft = `${(text.length - code.length) / 2}em`;
    return { node, keys: heads.map(headKey) };
  });
  const { node, heading } = panel(app, { title: "Program", name: `source-${i}`, net: i,
    picture: () => linesPicture([track.data.name, ...lines.map(({ text }) => text)], app.theme) });
  heading.title = "Read from the weights, and proved equal to the network";
  node.append(lines.length ? el("ol", { class: "source" }, ...rows.map((row) => el("li", {}, row.node)))
    : el("p", { class: "soft small", text: `None can be read: ${why}.` }));
  const draw = () => {
    node.hidden = i !== reader.net; // of several, that of the network that is looked at
    const key = node.hidden ? "" : chosen();
    for (const row of rows) {
      const here = row.keys.includes(key);
      row.node.classList.toggle("here", here);
      if (here) row.node.setAttribute("aria-current", "step");
      else row.node.removeAttribute("aria-current");
    }
  };
  return { node, draw };
}

/** What stands in a block now, as the layer that wrote it last has it.
 *  @param {Track} track @param {number} b */
export function expression(track, b) {
  let k = track.at;
  while (k > 0 && !track.run.edits[k].some((edit) => edit.block === b)) k--;
  if (!k) return track.varies[b] ? "not written yet" : "from the input";
  const { layer, skip } = track.root.locate(k);
  const where = `layer ${track.numbers[k]}`;
  if (skip) return `${where}: the skip around the module is added`;
  const { made, skip: adds } = track.data.layers[layer];
  if (!made[b]) return "";
  return `${adds && track.norms[b][k - 1] !== 0 ? "added" : "set"} by ${where}: ${made[b]}`;
}
