import { blockOf, distance } from "./recording.js";

/**
 * What a loop carries: the blocks that stand differently after its steps, as the w of a descent does and what
 * is only used within a step does not. An answer that is read after the loop says nothing before it; how far
 * these blocks are from where they end shows what the loop does.
 */

const ROUNDING = 1e-9; // of the largest entry: less is no change

/** The outermost repeated modules. @param {TreeNode} node @returns {TreeNode[]} */
function loopsIn(node) {
  return node.repeat > 1 ? [node] : node.body.flatMap(loopsIn);
}

/** Each carried block that holds no answer, with its distance at every position to where its loop leaves it.
 *  @param {Track} track @returns {{block: number, distances: Float64Array}[]} */
export function carriedBlocks(track) {
  const answers = new Set(track.answers.flatMap(({ cells }) => cells.map((c) => track.spot(c).block)));
  return loopsIn(track.root).flatMap((loop) => {
    const start = loop.position([]) - 1; // its steps end at start + inner, start + 2 inner, ...
    const ends = track.blocks.map(() => new Float64Array());
    const moved = track.blocks.map(() => false);
    for (const [k, H] of track.states()) {
      const steps = (k - start) / loop.inner;
      if (!(Number.isInteger(steps) && steps > 0 && steps <= loop.repeat)) continue;
      track.blocks.forEach((block, b) => {
        if (!track.varies[b]) return;
        const now = blockOf(block, H, track.width);
        moved[b] ||= steps > 1 && distance(now, ends[b]) > ROUNDING * track.largest[b];
        ends[b] = now;
      });
    }
    const found = track.blocks.flatMap((block, b) => (moved[b] && !answers.has(block) ? [b] : []))
      .map((block) => ({ block, distances: new Float64Array(track.run.positions) }));
    for (const [k, H] of found.length ? track.states() : []) {
      for (const { block, distances } of found) {
        distances[k] = distance(blockOf(track.blocks[block], H, track.width), ends[block]);
      }
    }
    return found;
  });
}
