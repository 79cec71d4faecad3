/**
 * The explorer: a network's prompt, heads and curves, layer by layer.
 *
 * The files beside this one have no dependencies but each other. `inweave/explore/document.py` makes
 * one module of them, used in two places: inlined in a page (with `staticModel`) and in a notebook
 * (with anywidget's model). So a name stands for one thing in all of them, and is imported as it is.
 */
import { Explorer } from "./explorer.js";

/** A model that lives in a page: anywidget's interface, with nobody on the other side.
 *  @param {Record<string, any>} values @returns {Model} */
export function staticModel(values) {
  const kept = new Map(Object.entries({ layer: 0, head: 0, ...values }));
  return {
    get: (name) => kept.get(name),
    set: (name, value) => void kept.set(name, value),
    on: () => undefined,
    save_changes: () => undefined,
  };
}

/** Show a payload in an element. @param {{model: Model, el: HTMLElement, page?: boolean}} where */
export function render({ model, el: host, page = false }) {
  const root = document.createElement("div");
  host.replaceChildren(root);
  let explorer = new Explorer(root, model.get("payload"), model, page);
  const follow = () => {
    const { reader } = explorer;
    const [layer, head] = [model.get("layer"), model.get("head")];
    if (reader.track.numbers[reader.position()] === layer && reader.head === head) return;
    reader.head = head;
    reader.choose(reader.net, reader.track.fromKey(String(layer)));
  };
  model.on("change:layer", follow);
  model.on("change:head", follow);
  model.on("change:payload", () => {
    explorer.destroy();
    explorer = new Explorer(root, model.get("payload"), model, page);
  });
  // for scripts: element.explorer.reader.goto(3)
  Object.defineProperty(host, "explorer", { get: () => explorer, configurable: true });
  return () => explorer.destroy();
}

export default { render };
