/** The first index whose entry is at least `least`.
 *  @param {ArrayLike<number>} sorted @param {number} least */
function bisect(sorted, least) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < least) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The scrubber's stops, called places: with one network a position, with several one in each.
 *
 * `depth` and `at` say for each place how many attention layers have been executed, and where each
 * network stands. Networks go from depth to depth together, by number or by share of their own depth;
 * one with more positions at a depth moves through them while the others wait at their last.
 */
export class Timeline {
  /** @param {Track[]} tracks @param {"layer" | "share"} align */
  constructor(tracks, align) {
    this.tracks = tracks;
    this.align = align;
    const most = Math.max(...tracks.map((t) => t.depth));
    /** @type {number[]} */
    this.depth = [];
    this.at = tracks.map(() => /** @type {number[]} */ ([]));
    const reached = tracks.map(() => -1);
    for (let d = 0; d <= most; d++) {
      const ranges = tracks.map((track, i) => {
        const share = align === "share" && most;
        const own = share ? Math.round((d / most) * track.depth) : Math.min(d, track.depth);
        const last = bisect(track.depths, own + 1) - 1;
        const first = own > reached[i] ? bisect(track.depths, own) : last;
        reached[i] = own;
        return [first, last];
      });
      const steps = Math.max(...ranges.map(([first, last]) => last - first));
      for (let j = 0; j <= steps; j++) {
        this.depth.push(d);
        ranges.forEach(([first, last], i) => this.at[i].push(Math.min(first + j, last)));
      }
    }
  }

  /** The last place. */
  get last() {
    return this.depth.length - 1;
  }

  /** The place for a position of one network. @param {number} i @param {number} position */
  placeOf(i, position) {
    const { depth, at } = this;
    const track = this.tracks[i];
    const first = bisect(at[i], Math.max(0, Math.min(track.last, position)));
    if (this.align !== "share" || !track.depth) return first;
    const ideal = (track.depths[at[i][first]] / track.depth) * depth[this.last];
    let best = first;
    for (let k = first; k <= this.last && at[i][k] === at[i][first]; k++) {
      if (Math.abs(depth[k] - ideal) < Math.abs(depth[best] - ideal)) best = k;
    }
    return best;
  }

  /** The place after everything that happens at a depth. @param {number} depth */
  placeAt(depth) {
    return Math.max(0, bisect(this.depth, depth + 1) - 1);
  }

  /** A place's name in a link: a position's for one network; for several the depth, and `.1`, `.2`
   *  and so on where it is not the first of that depth. @param {number} k */
  key(k) {
    if (this.tracks.length === 1) return this.tracks[0].key(k);
    const after = k - bisect(this.depth, this.depth[k]);
    return `${this.depth[k]}${after ? `.${after}` : ""}`;
  }

  /** @param {string} key */
  fromKey(key) {
    if (this.tracks.length === 1) return this.tracks[0].fromKey(key);
    const [depth, after] = key.split(".").map((part) => parseInt(part, 10));
    if (!(depth >= 0)) return 0;
    return Math.min(bisect(this.depth, depth) + (after > 0 ? after : 0), this.placeAt(depth));
  }
}
