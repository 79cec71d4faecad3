import { ICONS, button, chip, el, icon, svg } from "./dom.js";
import { SvgPainter } from "./painter.js";

/** The frame around a part of the page, and saving that part as a picture. */

/** @param {Blob} blob @param {string} name */
function download(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** @param {Element} picture @param {string} name @param {string} kind */
async function savePicture(picture, name, kind) {
  const file = new Blob([new XMLSerializer().serializeToString(picture)], { type: "image/svg+xml" });
  if (kind === "svg") {
    download(file, `${name}.svg`);
    return;
  }
  const image = new Image();
  image.src = URL.createObjectURL(file);
  await image.decode();
  const [width, height] = ["width", "height"].map((side) => 3 * Number(picture.getAttribute(side)));
  const canvas = el("canvas", { width, height });
  canvas.getContext("2d")?.drawImage(image, 0, 0, width, height);
  URL.revokeObjectURL(image.src);
  canvas.toBlob((blob) => blob && download(blob, `${name}.png`), "image/png");
}

/** Lines of text as a picture, the first one as a title. @param {string[]} lines @param {Theme} theme */
export function linesPicture(lines, theme) {
  const width = Math.max(200, ...lines.map((line) => [...line].length * 7.5)) + 24;
  const p = new SvgPainter(Math.ceil(width), lines.length * 18 + 20, theme);
  const style = { size: 12, mono: true };
  lines.forEach((line, i) => p.text(12, 24 + i * 18, line, { ...style, weight: i ? 400 : 600 }));
  return p.node;
}

/** A chart between its title and the names of its curves.
 *  @param {string} title @param {Element} chart @param {Key[]} keys @param {Theme} theme */
export function chartPicture(title, chart, keys, theme) {
  const [width, height] = ["width", "height"].map((side) => Number(chart.getAttribute(side)));
  const p = new SvgPainter(width, height + 34 + keys.length * 16, theme);
  p.text(8, 18, title, { size: 12, weight: 600 });
  const inner = /** @type {Element} */ (chart.cloneNode(true));
  inner.setAttribute("y", "26");
  p.inner.append(inner);
  keys.forEach(({ name, colour, dash }, i) => {
    const y = height + 38 + i * 16;
    const line = { x1: 12, x2: 34, y1: y, y2: y, stroke: colour, "stroke-width": 2 };
    p.inner.append(svg("line", { ...line, "stroke-dasharray": dash }));
    p.text(42, y + 4, name, { size: 11 });
  });
  return p.node;
}

/** A section with a title, and buttons that save it as a picture. With a network's number it carries that
 *  one's letter, where there are several.
 *  @param {Explorer} app @param {{title: string, name: string, net?: number, picture: () => Element,
 *   controls?: HTMLElement[]}} options */
export function panel(app, { title, name, net, picture, controls = [] }) {
  const label = `Save ${title} as a picture`;
  const summary = el("summary", { "aria-label": label, title: label }, icon(ICONS.save, 14));
  const kinds = ["svg", "png"].map((kind) => button(kind.toUpperCase(), () => {
    save.open = false;
    const { track } = app.reader;
    void savePicture(picture(), `inweave-${name}-layer-${track.key(track.at)}`, kind);
  }));
  const save = el("details", { class: "save" }, summary, el("div", { class: "menu" }, ...kinds));
  save.addEventListener("focusout", (event) => {
    if (!save.contains(/** @type {Node | null} */ (event.relatedTarget))) save.open = false;
  });
  const heading = el("h2", { text: title });
  const letter = app.several && net !== undefined ? [chip(net)] : [];
  const bar = el("div", { class: "bar" }, ...letter, heading, ...controls, save);
  return { node: el("section", { class: `panel panel-${name}`, "aria-label": title }, bar), heading };
}
