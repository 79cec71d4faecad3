import { button, choice, el, write } from "./dom.js";
import { linesPicture, panel } from "./panel.js";
import { headLines } from "./payload.js";
import { distance, norm } from "./recording.js";
import { short } from "./text.js";

/** Switching heads off and replacing blocks, and what changes where. What a head writes is zero when it is
 *  off; a block is replaced after a layer, by zeros or by what stands there when the network runs on another
 *  prompt. So each is one hook of `net.to_torch()`: `attn.hook_result`, and `hook_resid_post` of that layer.
 *  @param {Explorer} app @returns {Panel} */
export function ablate(app) {
  const { live, reader } = app;
  /** @param {Ablation} ablation */
  const toggle = (ablation) => {
    live.toggle(reader.net, ablation);
    app.look.difference = live.ablations[reader.net].length > 0 && app.look.difference;
    app.rerun();
  };
  const at = () => reader.position();
  const selected = () => ({ layer: reader.track.root.locate(at()).layer, head: reader.selected().chosen });
  const off = (/** @type {number | null} */ when) => toggle({ kind: "head", ...selected(), at: when });
  const here = button("switch off here", () => off(at()));
  const always = button("in every step", () => off(null));
  const blocks = el("select", { "aria-label": "Block to replace", onchange: () => app.changed() });
  const replace = (/** @type {"zeros" | "other"} */ by) => {
    toggle({ kind: "block", block: Number(blocks.value), at: at(), by });
  };
  const zeros = button("zeros", () => replace("zeros"));
  const other = button("another prompt’s", () => replace("other"));
  const view = choice("Show", [["state", "state"], ["difference", "difference"]], (value) => {
    app.restyle({ difference: value === "difference" });
  });
  const { node, heading } = panel(app, { title: "Ablate", name: "ablate", controls: [view.node],
    picture: () => linesPicture(["Ablated", ...listed()], app.theme) });
  const what = el("span", { class: "what" });
  const where = el("span", { class: "soft" });
  const list = el("ul", { class: "ablated", "aria-label": "What is ablated" });
  const result = el("p", { role: "status" });
  const effects = el("div", { class: "effects" });
  node.append(
    el("div", { class: "row" }, what, here, always),
    el("div", { class: "row" }, el("span", { text: "Replace" }), blocks, where, zeros, other),
    list, result, effects);
  const listed = () => app.tracks.flatMap((track, i) => {
    return live.ablations[i].map((one) => ablationText(track, one));
  });

  const layout = () => {
    const { track } = reader;
    const names = track.blocks.map(({ label }, b) => el("option", { value: b, text: label }));
    const kept = blocks.value;
    blocks.replaceChildren(...names);
    blocks.value = kept && Number(kept) < names.length ? kept : String(lastVaried(track));
    list.replaceChildren(...app.tracks.flatMap((one, i) => live.ablations[i].map((ablation) => {
      const text = ablationText(one, ablation);
      return el("li", {}, el("span", { text }), button("×", () => {
        live.toggle(i, ablation);
        app.rerun();
      }, { "aria-label": `No longer: ${text}` }));
    })));
    node.classList.toggle("active", list.childElementCount > 0);
    draw();
  };
  const draw = () => {
    const { track } = reader;
    const { layer, chosen, count } = reader.selected();
    const head = layer?.heads?.[chosen];
    const mine = live.ablations[reader.net];
    const is = (/** @type {number | null} */ when) => mine.some((a) => {
      return a.kind === "head" && a.layer === selected().layer && a.head === chosen && a.at === when;
    });
    const looped = track.root.locate(at()).turns.some(({ node: { repeat } }) => repeat > 1);
    write(heading, app.several ? `Ablate ${track.data.name}` : "Ablate");
    write(what, head ? `Head ${chosen} of ${count}, ${headLines(head).join("; ")}`
      : "No head is chosen: go to a layer to switch one of its heads off.");
    [here.hidden, always.hidden] = [!head, !head || !looped];
    write(here, looped ? "off in this step" : "switch off");
    write(always, "off in every step");
    here.setAttribute("aria-pressed", String(is(at())));
    always.setAttribute("aria-pressed", String(is(null)));
    write(where, track.at ? `after layer ${track.key(track.at)} by` : "of the input by");
    view.node.hidden = !track.effect;
    view.show(app.look.difference ? "difference" : "state");
    write(result, track.clean ? resultText(track, track.clean) : "");
    effects.replaceChildren(...effectMeters(track));
  };
  return { node, layout, draw };
}

/** @param {Track} track */
function lastVaried({ varies }) {
  return Math.max(0, varies.lastIndexOf(true));
}

/** @param {Track} track @param {Ablation} ablation */
function ablationText(track, ablation) {
  const { at } = ablation;
  if (ablation.kind === "block") {
    const by = ablation.by === "zeros" ? "zeros" : "another prompt’s";
    const where = at ? `after layer ${track.key(at)}` : "of the input";
    return `${track.blocks[ablation.block].label} ${where} is ${by}`;
  }
  const head = track.data.layers[ablation.layer].heads?.[ablation.head];
  const when = at === null ? "in every step" : `in layer ${track.key(at)}`;
  return `${head ? headLines(head).join("; ") : "a head"} is off ${when}`;
}

/** How far the last answers are from those of the whole network. @param {Track} track @param {Track} clean */
function resultText({ answers, end }, clean) {
  return answers.map(({ name, cells }) => {
    const [was, is] = [clean, { end }].map((run) => cells.map((cell) => run.end[cell]));
    if (cells.length === 1) return `${name}: ${short(is[0])}, was ${short(was[0])}.`;
    const share = (100 * distance(is, was)) / norm(was);
    return `${name}: moved by ${short(share)} % of its norm.`;
  }).join(" ");
}

/** The blocks that differ at this position, by how much of their norm. @param {Track} track */
function effectMeters({ effect, clean, blocks, at }) {
  if (!effect || !clean) return [];
  return blocks.flatMap(({ label }, b) => {
    const [moved, norm] = [effect.norms[b][at], clean.norms[b][at]];
    if (moved === 0) return [];
    const share = norm > 0 ? moved / norm : 1;
    const fill = el("span", { class: "fill" });
    fill.style.width = `${Math.max(1.5, 100 * Math.min(1, share))}%`;
    return [el("div", { class: "meter" }, el("span", { text: label }), el("span", { class: "rail" }, fill),
      el("b", { text: norm > 0 ? `${short(100 * share)} %` : "new" }))];
  });
}
