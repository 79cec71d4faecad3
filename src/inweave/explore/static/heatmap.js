import { LABEL, gridOf, isBinned, sizeText } from "./arrange.js";
import { isBright, shade } from "./colours.js";
import { textWidth, tiny } from "./text.js";

/** Heat maps, of the prompt and of small matrices. */

/** @param {Track} track @param {Box} box @param {Float64Array} [values] @returns {Slice} */
function blockSlice({ now, width, tokens, blocks }, { block }, values = now) {
  return { values, width, start: blocks[block].start, rows: tokens, cols: blocks[block].cols };
}

/** Whether an entry that a cell stands for passes a test. @param {Grid} grid @param {Slice} slice
 *  @param {number} r @param {number} c @param {(entry: number) => boolean} test */
function someEntry({ binR, binC }, { rows, cols, width, start }, r, c, test) {
  const [bottom, right] = [Math.min((r + 1) * binR, rows), Math.min((c + 1) * binC, cols)];
  for (let i = r * binR; i < bottom; i++) {
    for (let j = c * binC; j < right; j++) if (test(i * width + start + j)) return true;
  }
  return false;
}

/** The entry of largest magnitude that a cell stands for; NaN is larger than all.
 *  @param {Grid} grid @param {Slice} slice @param {number} r @param {number} c */
function entryAt(grid, slice, r, c) {
  let best = r * grid.binR * slice.width + slice.start + c * grid.binC;
  let most = -1;
  if (!isBinned(grid)) return best;
  someEntry(grid, slice, r, c, (entry) => {
    const size = Math.abs(slice.values[entry]);
    if (size > most || Number.isNaN(size)) {
      best = entry;
      most = Number.isNaN(size) ? Infinity : size;
    }
    return false;
  });
  return best;
}

/** Visit the cells of a grid, with the middle of each.
 *  @param {Cells} grid @param {(r: number, c: number, x: number, y: number) => void} visit */
function eachCell({ x, y, cell, rows, cols }, visit) {
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < cols; c++) visit(r, c, x + (c + 0.5) * cell, y + (r + 0.5) * cell);
  }
}

/** Draw the entries of a slice, with a dot on each exact zero in the first rows, unless cells are too small.
 *  @param {Painter} p @param {Grid} grid @param {Slice} slice @param {number} scale
 *  @param {number} least @param {number} rows */
function paintEntries(p, grid, slice, scale, least, rows) {
  /** @param {number} r @param {number} c */
  const value = (r, c) => slice.values[entryAt(grid, slice, r, c)] ?? 0;
  p.cells(grid, (r, c) => shade(value(r, c), scale));
  if (grid.cell < least) return value;
  /** @type {Rect[]} */
  const zeros = [];
  eachCell({ ...grid, rows }, (r, c, x, y) => {
    if (value(r, c) === 0) zeros.push([x - 0.75, y - 0.75, 1.5, 1.5]);
  });
  p.boxes(zeros, { fill: p.theme.faint });
  return value;
}

/** Draw the prompt.
 *  @param {Painter} p @param {Track} track @param {Plan} plan @param {Looks} look @param {number[]} pins
 *  @param {number} cursor */
export function paintPrompt(p, track, plan, look, pins, cursor) {
  const { line, soft, accent } = p.theme;
  const values = track.seen(look);
  const over = values === track.now ? track.largest : track.effect?.largest ?? [];
  const largest = look.fit ? track.blocks.map((_, b) => track.measure(b, values).largest) : over;
  for (const box of plan.boxes) {
    const { x, y, w, h, cell, own } = box;
    const scale = look.scale === "global" ? Math.max(...largest) : largest[box.block];
    paintEntries(p, box, blockSlice(track, box, values), scale, 12, Math.min(box.rows, own));
    if (own < box.rows) p.boxes([[x, y, w, h]], { stroke: line, width: 1, dash: [2, 3] });
    p.boxes([[x - 0.5, y - 0.5, w + 1, own * cell + 1]], { stroke: soft, width: 1 });
    const edits = look.marks ? track.run.edits[track.at].filter((e) => e.block === box.block) : [];
    if (edits.length) p.boxes(...changeMarks(p, track, box, edits));
    const spots = pins.flatMap((entry) => spotOf(track, box, entry, -0.5));
    p.boxes([...spots, ...spotOf(track, box, cursor, 1)], { stroke: accent, width: 2 });
    paintLabels(p, track, box, plan.view, edits.length > 0);
  }
  if (plan.view === "matrix") paintRowNumbers(p, plan.boxes[0]);
}

/** A frame around each changed entry, or where cells are small around each rectangle that was written.
 *  @param {Painter} p @param {Track} track @param {Box} box @param {Edit[]} edits
 *  @returns {[Rect[], RectStyle]} */
function changeMarks(p, track, box, edits) {
  const { x, y, cell, binR, binC } = box;
  const slice = blockSlice(track, box);
  const style = { stroke: p.theme.ink, width: cell < 7 || cell >= 12 ? 1.5 : 1 };
  if (cell < 7) {
    return [edits.map(({ row, col, rows, cols }) => {
      const [left, top] = [Math.floor((col - slice.start) / binC), Math.floor(row / binR)];
      const right = Math.ceil((col - slice.start + cols) / binC);
      const bottom = Math.min(box.rows, Math.ceil((row + rows) / binR));
      return [x + left * cell, y + top * cell, (right - left) * cell, (bottom - top) * cell];
    }), style];
  }
  /** @type {Rect[]} */
  const marks = [];
  const half = cell / 2 - 1.5;
  eachCell(box, (r, c, px, py) => {
    const fresh = someEntry(box, slice, r, c, (entry) => track.isNew(entry));
    if (fresh) marks.push([px - half, py - half, 2 * half, 2 * half]);
  });
  return [marks, style];
}

/** The cell in which an entry is drawn, `out` pixels larger; none where it is not in the box.
 *  @param {Track} track @param {Box} box @param {number} entry @param {number} out @returns {Rect[]} */
function spotOf(track, box, entry, out) {
  if (entry < 0) return [];
  const { block, row, col } = track.spot(entry);
  if (block !== track.blocks[box.block] || row >= box.rows * box.binR) return [];
  const x = box.x + Math.floor(col / box.binC) * box.cell;
  const y = box.y + Math.floor(row / box.binR) * box.cell;
  return [[x - out, y - out, box.cell + 2 * out, box.cell + 2 * out]];
}

/** @param {Painter} p @param {Track} track @param {Box} box @param {string} view @param {boolean} active */
function paintLabels(p, track, box, view, active) {
  const { x, y, w, h, label } = box;
  const { ink, soft, faint: colour } = p.theme;
  const style = { size: LABEL, weight: active ? 700 : 500, colour: active ? ink : soft };
  const size = sizeText(track.blocks[box.block]);
  if (view === "blocks") {
    const bins = isBinned(box) ? `, ${box.binR} × ${box.binC} per cell` : "";
    p.text(x, y - 18, label, style);
    p.text(x, y - 5, size + bins, { size: 10, colour });
    return;
  }
  if (box.turned) p.text(x + w / 2 + 2, y - 8, label, { ...style, turn: -38 });
  else p.text(x + w / 2, y - 8, label, { ...style, anchor: "middle" });
  if (w > 34) p.text(x + w / 2, y + h + 14, size, { size: 10, anchor: "middle", colour });
}

/** @param {Painter} p @param {Box} box */
function paintRowNumbers(p, { y, cell, rows }) {
  const every = Math.max(1, Math.ceil(14 / cell));
  for (let r = 0; r < rows; r += every) {
    p.text(18, y + (r + 0.5) * cell + 3.5, String(r), { size: 10, anchor: "end", colour: p.theme.faint });
  }
}

/** What is drawn at a point: an entry, or -1 where it is a block's name.
 *  @param {Track} track @param {Plan} plan @param {number} x @param {number} y */
export function pointAt(track, plan, x, y) {
  for (const box of plan.boxes) {
    const [c, r] = [Math.floor((x - box.x) / box.cell), Math.floor((y - box.y) / box.cell)];
    if (c >= 0 && r >= 0 && c < box.cols && r < box.rows) {
      return { box, entry: entryAt(box, blockSlice(track, box), r, c) };
    }
    const [high, wide] = [box.turned ? 30 : 34, Math.max(box.w, textWidth(box.label, LABEL))];
    if (x >= box.x && x < box.x + wide && y < box.y && y > box.y - high) return { box, entry: -1 };
  }
  return null;
}

/** The grid of a small matrix. @param {Matrix} m @param {number} [most] */
export function matrixGrid(m, most = 34) {
  return gridOf(m, 200, 148, 4, most);
}

/** Draw a small matrix, with its numbers where they fit.
 *  @param {Painter} p @param {Matrix} m @param {Grid} grid */
export function paintMatrix(p, m, grid) {
  const { x, y, w, h, cell, rows } = grid;
  const scale = m.largest();
  const slice = { values: m.values, width: m.cols, start: 0, rows: m.rows, cols: m.cols };
  const value = paintEntries(p, grid, slice, scale, 8, rows);
  eachCell({ ...grid, rows: cell < 26 ? 0 : rows }, (r, c, px, py) => {
    const v = value(r, c);
    if (v === 0) return;
    const text = tiny(v);
    const size = (cell >= 32 ? 10 : 9) - (text.length > 5 ? 1.5 : 0);
    const colour = isBright(p.theme, shade(v, scale)) ? "#14181d" : "#ffffff";
    p.text(px, py + 3.5, text, { size, anchor: "middle", colour });
  });
  p.boxes([[x - 0.5, y - 0.5, w + 1, h + 1]], { stroke: p.theme.soft, width: 1 });
}
