/** Making elements. Text from programs enters the document as text nodes only, never as markup. */

const SVG = "http://www.w3.org/2000/svg";

/** An element. Attributes are set as attributes, `text` as text, `onclick` and the like as listeners.
 *  @template {keyof HTMLElementTagNameMap} K
 *  @param {K} name @param {Record<string, any>} [attributes] @param {(Node | string)[]} children
 *  @returns {HTMLElementTagNameMap[K]} */
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") node.textContent = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, String(value));
  }
  node.append(...children);
  return node;
}

/** @param {string} name @param {Record<string, string | number>} attributes
 *  @param {(Node | string)[]} children */
export function svg(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
  node.append(...children);
  return node;
}

/** A picture that can stand alone in a file.
 *  @param {number} width @param {number} height @param {Record<string, string>} [more] */
export function svgRoot(width, height, more = {}) {
  return svg("svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}`, ...more });
}

/** Set a text, and touch nothing where it stands already. @param {Element} node @param {string} text */
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** @param {string} text @param {() => void} action @param {Record<string, any>} [more] */
export function button(text, action, more = {}) {
  return el("button", { type: "button", text, onclick: action, ...more });
}

export const ICONS = {
  first: "M3 3h2v10H3zM13 3v10L6 8z",
  back: "M11 3v10L4 8z",
  play: "M4 2.5v11L13 8z",
  pause: "M4 3h3v10H4zM9 3h3v10H9z",
  next: "M5 3v10l7-5z",
  last: "M11 3h2v10h-2zM3 3v10l7-5z",
  theme: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM8 3v10A5 5 0 0 1 8 3z",
  help:
    "M7.2 10.3h1.6v1.7H7.2zM8 3.5c-1.7 0-2.8 1-2.9 2.6h1.6c0-.8.5-1.2 1.3-1.2.7 0 1.2.4 1.2 1 0 .6-.3.9-.9 " +
    "1.3-.8.5-1.1 1-1.1 1.9v.3h1.6v-.3c0-.5.2-.7.9-1.2.7-.5 1.1-1.1 1.1-2C10.8 4.4 9.7 3.5 8 3.5z",
  save: "M7.2 2h1.6v6.2l2.3-2.3 1.1 1.1L8 11.2 3.8 7l1.1-1.1 2.3 2.3zM3 12.5h10V14H3z",
  less: "M10 3.5v9L5 8z",
  more: "M6 3.5v9L11 8z",
};

/** @param {string} path @param {number} [size] */
export function icon(path, size = 16) {
  const shape = svg("path", { d: path, fill: "currentColor", "fill-rule": "evenodd" });
  return svg("svg", { viewBox: "0 0 16 16", width: size, height: size, "aria-hidden": "true" }, shape);
}

/** @param {string} label @param {string} path @param {() => void} action @param {string} [kind] */
export function iconButton(label, path, action, kind = "icon") {
  const node = button("", action, { class: kind, "aria-label": label, title: label });
  node.append(icon(path));
  return node;
}

/** The letter of a network among several. @param {number} i */
export function chip(i) {
  return el("span", { class: `chip net${i}`, text: String.fromCharCode(65 + i), "aria-hidden": "true" });
}

/** A button that is on or off; `show` says which.
 *  @param {string} text @param {() => void} action @param {string | null} [kind] */
export function toggle(text, action, kind = "toggle") {
  const node = button(text, action, { class: kind });
  return { node, show: (/** @type {boolean} */ on) => node.setAttribute("aria-pressed", String(on)) };
}

/** A row of buttons of which one is on; `show` says which.
 *  @template {string} T
 *  @param {string} label @param {[T, string][]} options @param {(value: T) => void} set */
export function choice(label, options, set) {
  const toggles = options.map(([value, text]) => toggle(text, () => set(value), null));
  const show = (/** @type {T} */ value) => toggles.forEach((one, i) => one.show(options[i][0] === value));
  const node = el("div", { class: "choice", role: "group", "aria-label": label },
    el("span", { class: "soft", text: label }), ...toggles.map((one) => one.node));
  return { node, show };
}
