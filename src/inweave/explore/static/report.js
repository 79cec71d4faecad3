import { el, write } from "./dom.js";
import { OTHER_NETWORK } from "./live.js";
import { linesPicture, panel } from "./panel.js";
import { short } from "./text.js";

/** A network's size beside its lower bound, and its certificate.
 *  @param {Explorer} app @param {number} i @returns {Panel} */
export function report(app, i) {
  const { data } = app.tracks[i];
  const { depth, bound, degree, holds } = data.report;
  const size = `depth ${depth}${bound === null ? "" : `, lower bound ${bound} ${holds}`}`;
  const words = [data.name, size, ...facts(data).map((fact) => fact.join(": ")), "", ...proof(data)];
  const { node } = panel(app, { title: "Size and proof", name: `report-${i}`, net: i,
    picture: () => linesPicture(words, app.theme) });
  if (bound > 0) {
    const text = depth === bound ? `No exact network of attention layers ${holds} is shallower.`
      : `Degree ${degree}: no exact network of attention layers ${holds} has fewer than ${bound}.`;
    const most = Math.max(depth, bound);
    node.append(el("div", { class: "depth", role: "group", "aria-label": size },
      meter("depth", depth, most, "real"), meter("lower bound", bound, most, "bound"),
      el("p", { class: "soft small", text })));
  }
  const list = facts(data).flatMap(([key, text]) => [el("dt", { text: key }), el("dd", { text })]);
  const lines = proof(data).map((text, j) => el("p", { text, class: j ? "soft small" : "" }));
  node.append(el("dl", { class: "facts" }, ...list),
    el("div", { class: `proof ${data.certificate ? "good" : "none"}` }, ...lines));
  const note = el("p", { class: "changed small" });
  node.append(note);
  return { node, layout: () => write(note, changedText(app, i)) };
}

/** Whether the page shows what size and proof are about. @param {Explorer} app @param {number} i */
function changedText({ live }, i) {
  const steps = live.covered(i) ? "The proof covers the number of steps that the page runs, as far as seen."
    : `Nothing here is about the number of steps that the page runs: ${OTHER_NETWORK}.`;
  const ablated = live.ablations[i].length ? "Nothing here is about a network with parts ablated." : "";
  const size = "Size, bound and degree are those of the network as given, not of the steps that the page runs.";
  return [...(live.repeated(i) ? [size, steps] : []), ablated].filter(Boolean).join(" ");
}

/** @param {string} label @param {number} value @param {number} most @param {string} kind */
function meter(label, value, most, kind) {
  const fill = el("span", { class: `fill ${kind}` });
  fill.style.width = `${Math.max(1.5, (100 * value) / most)}%`;
  return el("div", { class: "meter" }, el("span", { text: label }), el("span", { class: "rail" }, fill),
    el("b", { text: String(value) }));
}

/** @param {NetworkData} data */
function facts({ report: r, rounded }) {
  return [
    ["program", r.program],
    ["sizes", Object.entries(r.sizes).map(([k, v]) => `${k} = ${v}`).join(", ")],
    ["kind", [r.target, r.optimize].filter(Boolean).join(", ")],
    ["attention layers", r.bound ? "" : String(r.depth)],
    ["heads stored", String(r.heads)],
    ["prompt", `${r.tokens} tokens × ${r.width} columns`],
    ["stored numbers", String(r.numbers)],
    ["degree", r.degree],
    ["states", rounded ? "rounded to single precision to keep this page small" : ""],
  ].filter(([, text]) => text);
}

/** @param {NetworkData} data @returns {string[]} */
function proof({ certificate, claim }) {
  if (certificate) return said(certificate);
  if (!claim) return ["Not verified", "No certificate came with this network."];
  const [first, ...rest] = said(claim);
  return [`Not verified: ${claim.status}`, `The file says: ${first}.`, ...rest];
}

/** @param {Record<string, any>} c @returns {string[]} */
function said(c) {
  const float = c.float_difference;
  const rest = [
    ...(typeof float === "number" ? [`Largest relative difference in float64: ${short(float)}.`] : []),
    ...c.conditions,
    ...c.functions,
    `Fingerprint ${String(c.network).slice(0, 16)}…`,
  ];
  if (c.method === "algebra") {
    return [
      "Proved equal to the program",
      "By algebra, with no chance of error: both written out as sums of words, loops by induction.",
      ...c.beyond,
      ...rest,
    ];
  }
  const how = c.method === "direct" ? "the whole network at random inputs"
    : c.method === "words" ? "sums of words, with random numbers for scalars and for what is repeated"
    : "one step of each tied loop at a random state";
  return [
    "Verified equal to the program",
    `Exact, modulo random primes, the least ${c.prime}: ${how}. ${c.trials} trials, seed ${c.seed}.`,
    `A wrong network would pass with probability at most ${Number(c.probability).toExponential(0)}.`,
    ...rest,
  ];
}
