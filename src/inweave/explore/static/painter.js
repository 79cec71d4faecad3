import { svg, svgRoot } from "./dom.js";

/** One drawing, two surfaces: a canvas to look at, SVG to save. */

const GAP_FROM = 6; // cells of this size have a line between them
const ALIGN = /** @type {const} */ ({ start: "left", middle: "center", end: "right" });
const scratch = new OffscreenCanvas(1, 1);

export class CanvasPainter {
  /** @param {HTMLCanvasElement} canvas @param {number} width @param {number} height @param {Theme} theme */
  constructor(canvas, width, height, theme) {
    const ratio = Math.max(1, globalThis.devicePixelRatio || 1);
    canvas.width = Math.round(width * ratio); // which also clears it
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    this.theme = theme;
    this.g = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    this.g.scale(ratio, ratio);
    this.g.imageSmoothingEnabled = false;
  }

  /** `pick` names each cell's row of the colour table.
   *  @param {Cells} cells @param {(r: number, c: number) => number} pick */
  cells({ x, y, cell, rows, cols }, pick) {
    const { g, theme } = this;
    const pixels = new ImageData(cols, rows);
    for (let i = 0; i < rows * cols; i++) {
      const from = 4 * pick(Math.floor(i / cols), i % cols);
      for (let byte = 0; byte < 4; byte++) pixels.data[4 * i + byte] = theme.colours[from + byte];
    }
    [scratch.width, scratch.height] = [cols, rows];
    scratch.getContext("2d", { willReadFrequently: true })?.putImageData(pixels, 0, 0);
    g.drawImage(scratch, x, y, cols * cell, rows * cell);
    if (cell < GAP_FROM) return;
    g.fillStyle = theme.panel;
    for (let c = 1; c < cols; c++) g.fillRect(x + c * cell - 0.5, y, 1, rows * cell);
    for (let r = 1; r < rows; r++) g.fillRect(x, y + r * cell - 0.5, cols * cell, 1);
  }

  /** @param {Rect[]} boxes @param {RectStyle} style */
  boxes(boxes, style) {
    const { g } = this;
    g.beginPath();
    for (const box of boxes) g.rect(...box);
    if ("fill" in style) {
      g.fillStyle = style.fill;
      g.fill();
    } else {
      g.strokeStyle = style.stroke;
      g.lineWidth = style.width;
      g.setLineDash(style.dash ?? []);
      g.stroke();
    }
  }

  /** @param {number} x @param {number} y @param {string} text @param {TextStyle} style */
  text(x, y, text, { size = 11, anchor = "start", colour, weight = 400, turn = 0, mono } = {}) {
    const { g, theme } = this;
    g.save();
    g.font = `${weight} ${size}px ${mono ? theme.mono : theme.font}`;
    g.fillStyle = colour ?? theme.ink;
    g.textAlign = ALIGN[anchor];
    g.translate(x, y);
    g.rotate((turn * Math.PI) / 180);
    g.fillText(text, 0, 0);
    g.restore();
  }
}

export class SvgPainter {
  /** Everything is drawn `left` and `top` further in. @param {number} width @param {number} height
   *  @param {Theme} theme @param {number} [left] @param {number} [top] */
  constructor(width, height, theme, left = 0, top = 0) {
    this.theme = theme;
    this.inner = svg("g", { transform: `translate(${left} ${top})` });
    this.node = svgRoot(width, height);
    this.node.append(svg("rect", { width, height, fill: theme.panel }), this.inner);
  }

  /** @param {Cells} cells @param {(r: number, c: number) => number} pick */
  cells({ x, y, cell, rows, cols }, pick) {
    const size = cell < GAP_FROM ? cell : cell - 1;
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < cols; c++) {
        const i = 4 * pick(r, c);
        const at = { x: x + c * cell, y: y + r * cell, width: size, height: size };
        this.inner.append(svg("rect", { ...at, fill: `rgb(${this.theme.colours.subarray(i, i + 3)})` }));
      }
    }
  }

  /** @param {Rect[]} boxes @param {RectStyle} style */
  boxes(boxes, style) {
    if (!boxes.length) return;
    const d = boxes.map(([x, y, w, h]) => `M${x} ${y}h${w}v${h}h${-w}z`).join("");
    const look = "fill" in style ? style : { fill: "none", stroke: style.stroke, "stroke-width": style.width,
      "stroke-dasharray": style.dash?.join(" ") ?? "none" };
    this.inner.append(svg("path", { d, ...look }));
  }

  /** @param {number} x @param {number} y @param {string} text @param {TextStyle} style */
  text(x, y, text, { size = 11, anchor = "start", colour, weight = 400, turn = 0, mono } = {}) {
    this.inner.append(svg("text", {
      x, y, "font-size": size, "font-family": mono ? "monospace" : "sans-serif", "font-weight": weight,
      "text-anchor": anchor, fill: colour ?? this.theme.ink, "xml:space": "preserve",
      transform: `rotate(${turn} ${x} ${y})`,
    }, text));
  }
}
