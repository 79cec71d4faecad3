import { allInputs, drawn, filled, given } from "./inputs.js";
import { Machine } from "./machine.js";
import { stateAt } from "./recording.js";
import { Track } from "./track.js";

const ANY_STEPS = "however often its loops repeat"; // as certificates put it
const OTHER = 1_000_003; // the seed of the other prompt, which nobody draws by hand

/**
 * The networks of a page at work: on other data, with another number of steps, with parts ablated.
 *
 * Until something is changed, the page shows the run that came with it. From then on it runs the networks
 * itself. Answers are compared with what was given as long as the data are those it was given for, and
 * then with the last answer of a network that has a certificate, or else the network's own: of the whole
 * network, whatever is ablated.
 */
export class Live {
  seed = 0; // of the data; 0 stands for those that came with the page

  /** @param {Track[]} tracks */
  constructor(tracks) {
    this.tracks = tracks;
    this.machines = tracks.map((track) => new Machine(track.data, track.arrays));
    this.inputs = allInputs(tracks.map((track) => track.data));
    this.values = given(this.inputs);
    this.loops = tracks.map(({ root }) => root.loops.map((node) => ({ node, made: node.repeat })));
    this.ablations = tracks.map(() => /** @type {Ablation[]} */ ([]));
    this.edited = false; // whether an input is not what came with the page
    this.asStored = true; // whether the run that came with the page is shown
  }

  /** Whether this page can run all its networks. */
  get able() {
    return this.tracks.every(({ root }, i) => this.machines[i].able(root));
  }

  /** Whether the networks are asked what they were asked when the page was made. */
  get asMade() {
    return !this.edited && this.tracks.every((_, i) => !this.repeated(i));
  }

  /** Whether a network runs another number of steps than it was made with. @param {number} i */
  repeated(i) {
    return this.loops[i].some(({ node, made }) => node.repeat !== made);
  }

  /** Whether a network's certificate is about the steps that it runs. @param {number} i */
  covered(i) {
    const { certificate } = this.tracks[i].data;
    return Boolean(certificate) && (!this.repeated(i) || certificate?.beyond.includes(ANY_STEPS));
  }

  // -- what can be changed --------------------------------------------------------------------------------
  /** @param {string} name @param {number} entry @param {number} value */
  set(name, entry, value) {
    const values = Float64Array.from(this.values.get(name) ?? []);
    values[entry] = value;
    this.values.set(name, values);
    this.edited = true;
  }

  /** Draw other data; the scalars stay. */
  draw() {
    this.seed += 1;
    this.values = drawn(this.inputs, this.values, this.seed);
    this.edited = true;
  }

  /** @param {number} i @param {number} loop @param {number} times */
  repeat(i, loop, times) {
    this.loops[i][loop].node.repeat = times;
    this.tracks[i].root.measure(0);
  }

  /** Whether this page can run so many steps. @param {number} i @param {number} loop @param {number} times */
  affords(i, loop, times) {
    const { node } = this.loops[i][loop];
    return this.machines[i].able(this.tracks[i].root, times / node.repeat);
  }

  /** The data and the number of steps that came with the page, and nothing ablated. */
  reset() {
    this.values = given(this.inputs);
    [this.seed, this.edited] = [0, false];
    this.loops.forEach((loops, i) => loops.forEach(({ made }, l) => this.repeat(i, l, made)));
    this.ablations = this.tracks.map(() => []);
  }

  /** Ablate something of a network, or no longer. @param {number} i @param {Ablation} ablation */
  toggle(i, ablation) {
    const same = (/** @type {Ablation} */ other) => JSON.stringify(other) === JSON.stringify(ablation);
    const kept = this.ablations[i].filter((one) => !same(one));
    this.ablations[i] = kept.length < this.ablations[i].length ? kept : [...kept, ablation];
  }

  /** Whether a head writes nothing at a position. @param {number} i @param {number} layer
   *  @param {number} head @param {number} k */
  isOff(i, layer, head, k) {
    return this.ablations[i].some((a) => {
      return a.kind === "head" && a.layer === layer && a.head === head && (a.at === null || a.at === k);
    });
  }

  // -- what follows from it -------------------------------------------------------------------------------
  /** Run all networks and load what came of it. */
  run() {
    const { tracks, asMade } = this;
    this.asStored = asMade && !this.ablations.some((list) => list.length);
    if (this.asStored) {
      for (const track of tracks) track.load(track.stored(), track.references());
      return;
    }
    const runs = tracks.map(({ data, arrays, root }, i) => {
      return this.machines[i].run(root, filled(data, arrays, this.values));
    });
    const ends = runs.map((run, i) => stateAt(run, run.positions - 1, tracks[i].width));
    const judge = tracks.findIndex((_, i) => this.covered(i));
    tracks.forEach((track, i) => {
      const wanted = asMade ? track.references() : this.lastAnswers(i, judge, ends);
      track.judge = asMade ? "" : judgeText(tracks[judge], track);
      if (!this.ablations[i].length) track.load(runs[i], wanted);
      else {
        const clean = new Track(track.data, track.root, track.arrays);
        clean.load(runs[i], wanted);
        track.load(this.ablated(i), wanted, clean);
      }
    });
  }

  /** The last answers of a network with a certificate, where they are of the same sizes, or a network's own.
   *  @param {number} own @param {number} judge @param {Float64Array[]} ends */
  lastAnswers(own, judge, ends) {
    return this.tracks[own].answers.map(({ cells }, j) => {
      const theirs = this.tracks[judge]?.answers[j]?.cells ?? [];
      const [found, end] = theirs.length === cells.length ? [theirs, ends[judge]] : [cells, ends[own]];
      return found.map((cell) => end[cell]);
    });
  }

  /** A run with ablations. @param {number} i */
  ablated(i) {
    const { data, arrays, root, width } = this.tracks[i];
    const blocks = this.ablations[i].filter((a) => a.kind === "block");
    /** @type {Recording | null} */
    let other = null;
    const replaced = blocks.map(({ at, block, by }) => {
      if (by === "zeros") return { at, block, state: null };
      other ??= this.machines[i].run(root, filled(data, arrays, this.other));
      return { at, block, state: stateAt(other, Math.min(at, other.positions - 1), width) };
    });
    const isOff = (/** @type {[number, number, number]} */ ...where) => this.isOff(i, ...where);
    return this.machines[i].run(root, filled(data, arrays, this.values), isOff, replaced);
  }

  /** The data of the other prompt: drawn, with the same scalars. */
  get other() {
    return drawn(this.inputs, this.values, OTHER);
  }
}

/** @param {Track | undefined} judge @param {Track} own */
function judgeText(judge, own) {
  if (!judge) return `the last answer of ${own.data.name} itself`;
  return `the last answer of ${judge.data.name}, which its certificate says is the program's`;
}
