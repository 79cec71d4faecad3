/**
 * A layer, or a module: parts that are repeated, perhaps with a skip around each step.
 *
 * A "position" is a state of the network: 0 is the input, then one per executed layer, and one for the skip
 * around a module where there is one. A node takes `span` positions, `inner` in each step, and begins
 * `start` positions into a step of the module around it. The root stands for all modules.
 */
export class TreeNode {
  layer = -1;
  repeat = 1;
  skip = false;
  inner = 1;
  start = 0;
  span = 1;
  /** @type {TreeNode[]} */ body = [];

  /** @param {ModuleData} data @param {TreeNode | null} [parent] */
  constructor(data, parent = null) {
    this.parent = parent;
    if ("layer" in data) this.layer = data.layer;
    else {
      [this.repeat, this.skip] = [data.repeat, data.skip];
      this.body = data.body.map((part) => new TreeNode(part, this));
    }
    this.measure(0);
  }

  /** Count positions, again after `repeat` has changed somewhere inside. @param {number} start */
  measure(start) {
    this.start = start;
    if (this.layer < 0) {
      this.inner = 0;
      for (const part of this.body) {
        part.measure(this.inner);
        this.inner += part.span;
      }
      if (this.skip) this.inner += 1;
    }
    this.span = this.repeat * this.inner;
  }

  /** Whether it is a module that adds nothing to its parts. */
  get plain() {
    return this.layer < 0 && this.repeat === 1 && !this.skip;
  }

  /** The first repeated module. @returns {TreeNode | null} */
  get loop() {
    if (this.repeat > 1) return this;
    return this.body.map((part) => part.loop).find(Boolean) ?? null;
  }

  /** The node of a layer. @param {number} layer @returns {TreeNode | null} */
  find(layer) {
    if (this.layer === layer) return this;
    return this.body.map((part) => part.find(layer)).find(Boolean) ?? null;
  }

  /** All modules that were made to be repeated. @returns {TreeNode[]} */
  get loops() {
    return [...(this.repeat === 1 ? [] : [this]), ...this.body.flatMap((part) => part.loops)];
  }

  /** What stands at position 1, 2, and so on: a layer, or the module whose skip is added.
   *  @returns {Generator<TreeNode>} */
  *run() {
    if (this.layer >= 0) yield this;
    for (let t = 0; this.layer < 0 && t < this.repeat; t++) {
      for (const part of this.body) yield* part.run();
      if (this.skip) yield this;
    }
  }

  /** Asked of the root: which layer stands at a position (none at the input and at a skip), in which steps
   *  of which modules. @param {number} k */
  locate(k) {
    /** @type {Turn[]} */
    const turns = [];
    /** @type {TreeNode | undefined} */
    let node = k ? this : undefined;
    for (let rest = k - 1; node && node.layer < 0; ) {
      const step = Math.floor(rest / node.inner);
      turns.push({ node, step });
      rest -= step * node.inner;
      if (node.skip && rest === node.inner - 1) return { layer: -1, skip: true, turns };
      node = node.body.find((part) => rest < part.start + part.span);
      rest -= node?.start ?? 0;
    }
    return { layer: node?.layer ?? -1, skip: false, turns };
  }

  /** Its position, in the steps that the modules around it stand at.
   *  @param {Turn[]} turns @returns {number} */
  position(turns) {
    const { parent } = this;
    if (!parent) return 1;
    const step = turns.find((turn) => turn.node === parent)?.step ?? 0;
    return parent.position(turns) + step * parent.inner + this.start;
  }
}
