import { Timeline } from "./timeline.js";

/** Where the reader stands (a place of the timeline, a network, a head) and every way to move. */
export class Reader {
  /** @param {Track[]} tracks @param {() => void} changed */
  constructor(tracks, changed) {
    this.tracks = tracks;
    this.changed = changed;
    this.times = new Timeline(tracks, "layer");
    this.k = 0;
    this.net = 0;
    this.head = 0;
  }

  get track() {
    return this.tracks[this.net];
  }

  /** The network of most attention layers. */
  get deepest() {
    return this.tracks.reduce((best, t, i) => (t.depth > this.tracks[best].depth ? i : best), 0);
  }

  /** The position of a network. @param {number} [i] */
  position(i = this.net) {
    return this.times.at[i][this.k];
  }

  /** The layer whose work is shown, and its head; no layer at the input and at a skip. */
  selected() {
    const layer = this.track.data.layers[this.track.root.locate(this.position()).layer] ?? null;
    const parts = layer?.heads ?? layer?.functions ?? [];
    return { layer, count: parts.length, chosen: Math.min(this.head, parts.length - 1) };
  }

  /** @param {number} k */
  goto(k) {
    const to = Math.max(0, Math.min(this.times.last, Math.round(k)));
    if (to === this.k) return;
    this.k = to;
    this.changed();
  }

  /** Choose a network and a position in it. @param {number} i @param {number} position */
  choose(i, position) {
    this.net = i;
    this.k = this.times.placeOf(i, position);
    this.changed();
  }

  /** Scrub by layer or share of depth, from where the deepest stands. @param {"layer" | "share"} align */
  alignBy(align) {
    const end = this.k === this.times.last;
    const at = this.position(this.deepest);
    this.times = new Timeline(this.tracks, align);
    this.k = end ? this.times.last : this.times.placeOf(this.deepest, at);
    this.changed();
  }

  /** Go to a layer, in the step that the modules around it stand at.
   *  @param {number} i @param {TreeNode} node @param {number} head */
  visit(i, node, head) {
    this.head = head;
    this.choose(i, node.position(this.tracks[i].root.locate(this.position(i)).turns));
  }

  /** Move by steps of a repeated module. @param {number} i @param {TreeNode} node @param {number} by */
  turn(i, node, by) {
    const at = this.position(i);
    const { turns } = this.tracks[i].root.locate(at);
    const turn = turns.find((t) => t.node === node);
    const last = node.repeat - 1;
    if (turn) {
      const step = Math.max(0, Math.min(last, turn.step + by));
      this.choose(i, at + (step - turn.step) * node.inner);
    } else this.choose(i, node.position(turns) + (by > 0 ? 0 : last * node.inner));
  }

  /** Move by one step of the innermost repeated module. @param {number} by */
  bigStep(by) {
    const at = this.position();
    const { root, last } = this.track;
    const around = root.locate(at).turns.findLast((t) => t.node.repeat > 1)?.node;
    const inner = (around ?? root.loop)?.inner ?? 10;
    if (by > 0 && at === last) this.goto(this.k + inner); // the others go on
    else this.goto(this.times.placeOf(this.net, at + by * inner));
  }

  /** @param {number} by */
  nextHead(by) {
    const { count, chosen } = this.selected();
    if (count) this.head = (chosen + by + count) % count;
    this.changed();
  }

  nextNetwork() {
    this.net = (this.net + 1) % this.tracks.length;
    this.changed();
  }
}
