import { clip, textWidth } from "./text.js";

/** Where matrices are drawn: as grids of cells, in which a cell may stand for a bin of entries. */

export const LABEL = 12; // pixels of a block's name
const STRIP_GAP = 9;
const LEFT = 24; // of the first block: rows are numbered there
const HEAD = 34; // above a block that stands alone: name and size

/** A grid with square cells of at most `most` pixels, and bins once entries get less than `unit`.
 *  @param {{rows: number, cols: number}} matrix @param {number} wide @param {number} high
 *  @param {number} unit @param {number} most @returns {Grid} */
export function gridOf(matrix, wide, high, unit, most) {
  const binR = Math.max(1, Math.ceil((matrix.rows * unit) / high));
  const binC = Math.max(1, Math.ceil((matrix.cols * unit) / wide));
  const rows = Math.max(1, Math.ceil(matrix.rows / binR));
  const cols = Math.max(1, Math.ceil(matrix.cols / binC));
  const cell = Math.max(4, Math.min(most, Math.floor(Math.min(wide / cols, high / rows))));
  return { x: 0, y: 0, w: cols * cell, h: rows * cell, cell, rows, cols, binR, binC };
}

/** @param {Grid} grid */
export function isBinned(grid) {
  return grid.binR * grid.binC > 1;
}

/** @param {{rows: number, cols: number}} matrix */
export function sizeText({ rows, cols }) {
  return `${rows} × ${cols}`;
}

/** Where each block is drawn.
 *
 * As a matrix: all blocks side by side on the same rows, while cells stay at least 7 pixels wide. As blocks:
 * one tile each, wrapped like words; a block too large for its tile is drawn in bins, each showing the entry
 * of largest magnitude in it. @param {Track} track @param {number} width @param {Looks["view"]} view
 * @param {number} expanded @returns {Plan} */
export function arrange(track, width, view, expanded) {
  const room = width - LEFT - 4 - STRIP_GAP * (track.blocks.length - 1);
  const fit = Math.floor(Math.min(28, room / track.width, 420 / track.tokens));
  const least = view === "matrix" ? 4 : 7;
  if (view === "matrix" || (view === "auto" && fit >= least)) {
    for (let cell = Math.max(fit, least); cell >= least; cell--) {
      const plan = arrangeMatrix(track, cell); // slanted names may reach further than cells
      if (plan.width <= width || (cell === least && view === "matrix")) return plan;
    }
  }
  return arrangeBlocks(track, width, expanded);
}

/** @param {Track} track @param {number} cell @returns {Plan} */
function arrangeMatrix({ blocks, tokens: rows }, cell) {
  const names = blocks.map((b) => {
    const label = clip(b.label, 18);
    const long = textWidth(label, LABEL);
    return { label, long, turned: long > b.cols * cell + STRIP_GAP - 2 };
  });
  const y = 22 + Math.ceil(Math.max(0, ...names.map(({ long, turned }) => (turned ? long : 0))) * 0.62);
  let [x, right] = [LEFT, 0];
  const boxes = blocks.map(({ cols, rows: own }, block) => {
    const { label, long, turned } = names[block];
    const [w, h] = [cols * cell, rows * cell];
    const box = { block, x, y, w, h, cell, rows, cols, binR: 1, binC: 1, own, label, turned };
    right = Math.max(right, turned ? x + w / 2 + long * 0.8 : x + w);
    x += w + STRIP_GAP;
    return box;
  });
  return { boxes, width: Math.ceil(right) + 4, height: y + rows * cell + 20, view: "matrix", binned: false };
}

/** @param {Track} track @param {number} width @param {number} expanded @returns {Plan} */
function arrangeBlocks({ blocks, tokens, tall }, width, expanded) {
  let [x, y, tallest, widest] = [4, 0, 0, 120];
  const boxes = blocks.map((b, block) => {
    const open = block === expanded;
    const rows = tall[block] ? tokens : b.rows;
    const [wide, high] = open ? [Math.max(width - 8, b.cols * 9), rows * 14] : [250, 150];
    const grid = gridOf({ rows, cols: b.cols }, wide, high, 5, 18);
    const label = clip(b.label, 24);
    const span = Math.max(grid.w, textWidth(label, LABEL), textWidth(sizeText(b), 10)) + 18;
    if (x > 4 && (x + span > width || open)) [x, y, tallest] = [4, y + tallest, 0];
    const own = Math.ceil(b.rows / grid.binR);
    const box = { ...grid, x, y: y + HEAD, block, own, label, turned: false };
    widest = Math.max(widest, x + span);
    tallest = Math.max(tallest, grid.h + HEAD + 18);
    x = open ? width : x + span;
    return box;
  });
  return { boxes, width: widest, height: y + tallest, view: "blocks", binned: boxes.some(isBinned) };
}
