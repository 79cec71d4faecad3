/** The view as text after `#`. @param {Explorer} app */
export function linkOf({ reader, look, several, story }) {
  const out = new URLSearchParams();
  if (story.at >= 0) out.set("chapter", String(story.at + 1));
  out.set("layer", reader.times.key(reader.k));
  out.set("head", String(reader.head));
  if (several) out.set("net", String(reader.net));
  if (reader.times.align !== "layer") out.set("align", reader.times.align);
  if (look.scale !== "block") out.set("scale", look.scale);
  if (look.view !== "auto") out.set("view", look.view);
  return `#${out}`;
}

/** @param {Explorer} app */
export function writeLink(app) {
  if (linkOf(app) === globalThis.location.hash) return;
  try {
    globalThis.history.replaceState(null, "", linkOf(app));
  } catch {
    // some frames may not change their address; the view is not lost
  }
}

/** Take what the address says about the view; what it does not say stays. @param {Explorer} app */
export function readLink({ reader, look, several, story }) {
  const given = new URLSearchParams(globalThis.location.hash.slice(1));
  const number = (/** @type {string} */ name, /** @type {number} */ most) => {
    const n = parseInt(given.get(name) ?? "", 10);
    return Number.isFinite(n) ? Math.max(0, Math.min(most, n)) : 0;
  };
  if (given.has("chapter") && number("chapter", 1e6) !== story.at + 1) story.go(number("chapter", 1e6) - 1);
  if (given.has("net")) reader.net = number("net", reader.tracks.length - 1);
  if (several) reader.alignBy(given.get("align") === "share" ? "share" : "layer");
  if (given.has("head")) reader.head = number("head", 1e6);
  const layer = given.get("layer");
  if (layer !== null) reader.k = reader.times.fromKey(layer);
  if (given.get("scale") === "global") look.scale = "global";
  const view = given.get("view");
  if (view === "matrix" || view === "blocks") look.view = view;
}
