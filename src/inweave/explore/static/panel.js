import { ICONS, button, chip, el, icon } from "./dom.js";
import { SvgPainter } from "./painter.js";
import { textWidth } from "./text.js";

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
  const width = Math.max(200, ...lines.map((line) => textWidth(line, 12))) + 24;
  const p = new SvgPainter(Math.ceil(width), lines.length * 18 + 20, theme);
  const style = { size: 12, mono: true };
  lines.forEach((line, i) => p.text(12, 24 + i * 18, line, { ...style, weight: i ? 400 : 600 }));
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
