import { watched } from "./domains.js";
import { allInputs, drawn, filled, given } from "./inputs.js";
import { Machine } from "./machine.js";
import { stateAt } from "./recording.js";
import { Track } from "./track.js";

const ANY_STEPS = "however often its loops repeat"; // as certificates put it
export const OTHER_NETWORK =
  "the page runs the loops that often, and the program at that many steps may be another network";
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
    this.knobs = tracks.map(knobsOf);
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
    return this.knobs[i].some((knob) => knob.more);
  }

  /** Whether a network is its program at the number of steps that it runs, as far as was seen when the page
   *  was made, and not just loops that are run that often. @param {number} i */
  counted(i) {
    return this.knobs[i].every(({ counted, more }) => counted || !more);
  }

  /** Whether a network's certificate is about the steps that it runs. @param {number} i */
  covered(i) {
    const { certificate } = this.tracks[i].data;
    if (!certificate) return false;
    return !this.repeated(i) || (this.counted(i) && certificate.beyond.includes(ANY_STEPS));
  }

  /** The numbers that a network's program would be recorded with to be what runs, as text. @param {number} i */
  steps(i) {
    const more = new Map(this.knobs[i].map((knob) => [knob.name, knob.more]));
    const statics = /** @type {[string, number][]} */ (Object.entries(this.tracks[i].data.report.statics));
    return String(statics.map(([name, value]) => `${name}=${value + (more.get(name) ?? 0)}`).sort());
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

  /** Turn a knob. @param {number} i @param {Knob} knob @param {number} value */
  repeat(i, knob, value) {
    knob.more = value - knob.made;
    for (const { node, made } of knob.loops) node.repeat = made + knob.more;
    this.tracks[i].root.measure(0);
  }

  /** Whether this page can run so many steps. @param {number} i @param {Knob} knob @param {number} value */
  affords(i, knob, value) {
    const times = knob.loops.map(({ node, made }) => [made + value - knob.made, node.repeat]);
    if (!times.every(([wanted]) => wanted > 0)) return false;
    return this.machines[i].able(this.tracks[i].root, Math.max(...times.map(([a, b]) => a / b)));
  }

  /** The data and the number of steps that came with the page, and nothing ablated. */
  reset() {
    this.values = given(this.inputs);
    [this.seed, this.edited] = [0, false];
    this.knobs.forEach((knobs, i) => knobs.forEach((knob) => this.repeat(i, knob, knob.made)));
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
    const runs = tracks.map((track, i) => {
      const { data, arrays, root } = track;
      return watched(track, this.machines[i].run(root, filled(data, arrays, this.values)));
    });
    const ends = runs.map((run, i) => stateAt(run, run.positions - 1, tracks[i].width));
    tracks.forEach((track, i) => {
      const judge = this.judgeOf(i, runs);
      const wanted = asMade ? track.references() : this.lastAnswers(i, judge, ends);
      track.judge = asMade ? "" : this.judgeText(judge, runs[i]);
      if (!this.ablations[i].length) track.load(runs[i], wanted);
      else {
        const clean = new Track(track.data, track.root, track.arrays);
        clean.load(runs[i], wanted);
        track.load(this.ablated(i), wanted, clean);
      }
    });
  }

  /** The network that answers are compared with: one with a certificate about what it runs, on the same
   *  number of steps and with answers of the same sizes; or the network itself; or none, where it runs
   *  something that may be no program's or that the network refuses. @param {number} i
   *  @param {Recording[]} runs */
  judgeOf(i, runs) {
    if (runs[i].left) return -1;
    const sizes = (/** @type {number} */ n) => String(this.tracks[n].answers.map(({ cells }) => cells.length));
    const same = (/** @type {number} */ j) => sizes(i) === sizes(j) && (
      (!this.repeated(i) && !this.repeated(j)) || (this.counted(i) && this.steps(i) === this.steps(j)));
    const judge = this.tracks.findIndex((_, j) => {
      return this.covered(j) && !runs[j].left && (i === j || same(j));
    });
    return judge < 0 && !this.repeated(i) ? i : judge;
  }

  /** @param {number} own @param {number} judge none below zero @param {Float64Array[]} ends */
  lastAnswers(own, judge, ends) {
    if (judge < 0) return this.tracks[own].answers.map(() => null);
    return this.tracks[judge].answers.map(({ cells }) => cells.map((cell) => ends[judge][cell]));
  }

  /** What answers are compared with, in words. @param {number} judge @param {Recording} run */
  judgeText(judge, run) {
    if (run.left) return "none, because a function got a value outside its domain";
    if (judge < 0) return `none, because ${OTHER_NETWORK}`;
    const { name, layers } = this.tracks[judge].data;
    const exact = layers.every(({ nets = [] }) => nets.every((net) => net.exact));
    if (!this.covered(judge)) return `the last answer of ${name} itself`;
    return `the last answer of ${name}, which its certificate says is the program's${
      exact ? "" : " within the error of its functions"}${this.repeated(judge) ? ", as far as seen" : ""}`;
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
    return watched(this.tracks[i],
      this.machines[i].run(root, filled(data, arrays, this.values), isOff, replaced));
  }

  /** The data of the other prompt: drawn, with the same scalars. */
  get other() {
    return drawn(this.inputs, this.values, OTHER);
  }
}

/** What can be turned: the static numbers that loops follow, then the loops that follow none.
 *  @param {Track} track @returns {Knob[]} */
function knobsOf({ root, data: { report: { statics }, counted } }) {
  const loops = root.loops.map((node) => ({ node, made: node.repeat }));
  const groups = Object.entries(counted);
  const following = groups.map(([name, own]) => {
    return { name, made: statics[name], more: 0, counted: true, loops: own.map((l) => loops[l]) };
  });
  const followed = new Set(groups.flatMap(([, own]) => own));
  const loose = loops.map((loop, l) => ({ loop, l })).filter(({ l }) => !followed.has(l));
  return [...following, ...loose.map(({ loop, l }) => {
    const named = Object.keys(statics).find((key) => statics[key] === loop.made && !counted[key]);
    const name = loose.length > 1 ? `loop ${l + 1}` : named ?? (loops.length > 1 ? `loop ${l + 1}` : "turns");
    return { name, made: loop.made, more: 0, counted: false, loops: [loop] };
  })];
}
