import { ICONS, button, el, iconButton, svg, write } from "./dom.js";
import { linesPicture, panel } from "./panel.js";
import { curveText, headLines } from "./payload.js";
import { standsFor } from "./source.js";

/** The network as it is stored: its modules and layers, each head in matrix terms.
 *  @param {Explorer} app @param {number} i @returns {Panel} */
export function outline(app, i) {
  const { reader } = app;
  const track = reader.tracks[i];
  const lines = [track.data.name]; // the same as text, for a picture
  /** @type {{row: HTMLElement, part: TreeNode}[]} */
  const rows = [];
  /** @type {{row: HTMLElement, part: TreeNode, label: HTMLElement, name: HTMLElement}[]} */
  const modules = [];
  /** @param {TreeNode} part @param {HTMLElement} into @param {string} indent */
  const add = (part, into, indent) => {
    if (part.layer >= 0) {
      const number = rows.length + 1;
      const layer = track.data.layers[part.layer];
      const go = (/** @type {number} */ head) => reader.visit(i, part, head);
      const { row, texts } = layerRow(layer, number, go, (head) => standsFor(i, [[part.layer, head]]));
      texts.forEach((text, h) => lines.push(`${indent}${String(h ? "" : number).padStart(3)}  ${text}`));
      rows.push({ row, part });
      into.append(row);
    } else if (part.plain) part.body.forEach((inner) => add(inner, into, indent));
    else {
      const { row, inner, label, name } = moduleRow((by) => reader.turn(i, part, by));
      lines.push(indent + moduleText(part));
      modules.push({ row, part, label, name });
      part.body.forEach((next) => add(next, inner, `${indent}    `));
      into.append(row);
    }
  };
  const start = button("input prompt", () => reader.choose(i, 0), { class: "input" });
  const input = el("li", { class: "layer" }, el("span", { class: "no", text: "0" }), start);
  const list = el("ol", { class: "layers" }, input);
  add(track.root, list, "");
  const { node, heading } = panel(app, { title: track.data.name, name: `network-${i}`, net: i,
    picture: () => linesPicture(lines, app.theme) });
  if (!app.several) heading.textContent = "Network";
  node.append(list);

  const draw = () => {
    const { layer, turns } = track.root.locate(track.at);
    const head = i === reader.net ? reader.head : -1;
    markRow(input, track.at === 0, head);
    for (const { row, part } of rows) markRow(row, part.layer === layer, head);
    for (const { row, part } of rows) {
      row.querySelectorAll(".head").forEach((node, h) => {
        node.classList.toggle("off", app.live.isOff(i, part.layer, h, track.at));
      });
    }
    for (const { row, part, label, name } of modules) {
      write(name, moduleText(part));
      const turn = turns.find((t) => t.node === part);
      const begun = track.at >= part.position(turns);
      write(label, turn ? `step ${turn.step + 1} / ${part.repeat}` : begun ? "done" : "ahead");
      row.classList.toggle("active", Boolean(turn));
    }
  };
  return { node, draw };
}

/** @param {TreeNode} part */
function moduleText({ repeat, skip }) {
  const times = repeat === 1 && skip ? [] : [`repeat ${repeat} ×`];
  return [...times, ...(skip ? ["skip around"] : [])].join(", ");
}

/** A repeated module, or one with a skip around it, with buttons that move by its steps.
 *  @param {(by: number) => void} turn */
function moduleRow(turn) {
  const inner = el("ol");
  const [name, label] = [el("span"), el("span", { class: "count" })];
  const bar = el("div", { class: "repeat" }, name,
    iconButton("Previous step", ICONS.less, () => turn(-1)), label,
    iconButton("Next step", ICONS.more, () => turn(1)));
  return { row: el("li", { class: "module" }, bar, inner), inner, label, name };
}

/** @param {Layer} layer @param {number} number @param {(head: number) => void} go
 *  @param {(head: number | null) => Record<string, any>} stands */
function layerRow(layer, number, go, stands) {
  const what = (/** @type {string} */ text) => el("span", { class: "what", text });
  const heads = (layer.heads ?? []).map((head, h) => {
    const text = headLines(head).join("; ");
    const node = button("", () => go(h), { class: "head", "aria-label": `Head ${h}: ${text}`,
      ...stands(h) });
    node.append(...head.lines.map(([from, to]) => {
      return el("span", { class: "line" }, what(from), " → ", el("b", { text: to }));
    }));
    return { node, text };
  });
  const curves = (layer.functions ?? []).map((curve, h) => {
    const node = button("", () => go(h), { class: "head curve", ...stands(null) });
    node.append(sparkline(curve), what(curveText(curve)));
    return { node, text: curveText(curve) };
  });
  const parts = [...heads, ...curves];
  const empty = layer.kind === "pointwise" ? `pointwise, ${layer.units ?? 0} units per entry` : "no heads";
  const buttons = parts.map((part) => part.node);
  if (!parts.length) buttons.push(button(empty, () => go(0), { class: "head" }));
  const no = button(String(number), () => go(0), { class: "no", "aria-label": `Layer ${number}` });
  const row = el("li", { class: `layer ${layer.kind}` }, no,
    el("ul", { class: "heads" }, ...buttons.map((node) => el("li", {}, node))));
  if (!layer.skip && layer.kind === "attention") {
    row.append(el("span", { class: "soft note", text: "replaces the prompt (no skip)" }));
  }
  return { row, texts: parts.map((part) => part.text) };
}

/** @param {Curve} curve */
function sparkline({ net }) {
  const finite = net.filter((v) => v !== null);
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  const points = net.map((v, i) => {
    if (v === null) return "";
    const [x, y] = [i / (net.length - 1), (v - low) / (high - low || 1)];
    return `${(2 + x * 44).toFixed(1)},${(22 - y * 18).toFixed(1)}`;
  }).join(" ");
  const box = { viewBox: "0 0 48 26", width: 48, height: 26, class: "spark", "aria-hidden": "true" };
  const line = { points, fill: "none", stroke: "currentColor", "stroke-width": 1.5 };
  return svg("svg", box, svg("polyline", line));
}

/** Mark the row of the layer that is shown, and its chosen head.
 *  @param {HTMLElement} row @param {boolean} here @param {number} head */
function markRow(row, here, head) {
  if (row.classList.contains("here") !== here) {
    row.classList.toggle("here", here);
    if (here) reveal(row);
  }
  if (here) row.setAttribute("aria-current", "step");
  else row.removeAttribute("aria-current");
  const heads = row.querySelectorAll(".head");
  heads.forEach((node, h) => {
    const chosen = here && h === Math.min(head, heads.length - 1);
    node.classList.toggle("chosen", chosen);
    node.setAttribute("aria-pressed", String(chosen));
  });
}

/** Scroll a row's own list, and nothing else, until the row is seen. @param {HTMLElement} row */
function reveal(row) {
  const list = row.closest(".layers");
  if (!list || list.scrollHeight <= list.clientHeight) return;
  const [a, b] = [row.getBoundingClientRect(), list.getBoundingClientRect()];
  if (a.top < b.top) list.scrollTop += a.top - b.top - 8;
  else if (a.bottom > b.bottom) list.scrollTop += Math.min(a.bottom - b.bottom + 8, a.top - b.top - 8);
}
