/** The types of the explorer's data, for `scripts/check-js` and editors; no page contains this file. */

// -- what arrives: the value that inweave/explore/payload.py writes
type Packed = { dtype: "float64" | "float32" | "int32"; shape: number[]; data: string };
type Block = { name: string; label: string; rows: number; cols: number; start: number };
type Constant = { rows: number; cols: number; shift?: [row: number, col: number, size: number];
  dense?: number };
type Piece = Constant & { from: number; at: number; c: number };
type Part = { text: string; pieces: Piece[] };
type Head = { lines: [what: string, dest: string][];
  parts: { query: Part; key: Part; value: Part } | null };
/** A layer, counted as stored, and a head of it; none for a pointwise layer. */
type HeadAt = [layer: number, head: number | null];
/** A program's lines with their heads, or why there are none. */
type Source = { lines: { text: string; heads: HeadAt[] }[]; why: string };
type Curve = { name: string; where: string; units: number; note: string; log: boolean;
  x: (number | null)[]; net: (number | null)[]; true?: (number | null)[] };
type PointwiseNet = { place: Place; weights: number[]; biases: number[]; outputs: number[];
  constant: number; name: string; domain: string | null; limits: [low: number | null, high: number | null];
  exact: boolean };
type Layer = { kind: "attention" | "pointwise"; skip: boolean; made: Record<number, string>;
  heads?: Head[]; functions?: Curve[]; units?: number; relu?: boolean; dense?: number[] | null; nets?: PointwiseNet[] };
type ModuleData = { layer: number } | { repeat: number; skip: boolean; body: ModuleData[] };
type Place = { rows: number; cols: number; row: number; col: number; transpose: boolean; diagonal: number;
  start: number };
type Input = { name: string; label: string; rows: number; cols: number; 
  kind: "scalar" | "vector" | "matrix" | "prompt"; sign: "any" | "nonnegative" | "positive"; value: Packed };
type Fill = { place: Place; source: string | null; constant: Constant | null;
  scale: [name: string, power: number][]; c: number };
type Output = { name: string; kind: string; place: Place; reference: Packed | null };
type NetworkData = { name: string; layout: { tokens: number; width: number; blocks: Block[] };
  modules: ModuleData[]; layers: Layer[]; arrays: Packed[]; rounded: boolean; first: Packed; changes: Packed;
  values: Packed; positions: number; inputs: Input[]; fills: Fill[] | null; outputs: Output[];
  reference: string | null; source: Source;
  counted: Record<string, number[]>; report: Record<string, any>; certificate: Record<string, any> | null;
  claim: Record<string, any> | null };
type Chapter = { title: string; text: string; show: string; network: number; layer: string; head: number;
  inputs: Record<string, number>; steps: number | null; off: [layer: number, head: number][];
  difference: boolean };
type Payload = { version: number; inweave: string; inputs: string; networks: NetworkData[]; story: Chapter[] };
type Model = { get(name: string): any; set(name: string, value: any): void;
  on(event: string, action: () => void): void; save_changes(): void };

// -- what is derived from it
type TreeNode = import("./tree.js").TreeNode;
type Track = import("./track.js").Track;
type Reader = import("./reader.js").Reader;
type Explorer = import("./explorer.js").Explorer;
type Matrix = import("./parts.js").Matrix;
/** A module, and which of its steps is executed. */
type Turn = { node: TreeNode; step: number };
/** A rectangle of the prompt that a position writes; its values begin at `from`. */
type Edit = { block: number; row: number; col: number; rows: number; cols: number; from: number };
/** A run: the input, and what each position writes. */
type Recording = { first: ArrayLike<number>; edits: Edit[][]; positions: number;
  values: Float64Array | Float32Array | Int32Array; left?: Left };
/** A function that met a value outside its domain, at a position. */
type Left = { net: PointwiseNet; value: number; at: number };
/** A number of steps that can be changed: `made` with the page, `more` since; `counted` where it is a number of
 *  the program and only these loops follow it, as far as seen. */
type Knob = { name: string; made: number; more: number; counted: boolean;
  loops: { node: TreeNode; made: number }[] };
/** A head that writes nothing, at one position or at all; or a block that is replaced at a position. */
type Ablation = { kind: "head"; layer: number; head: number; at: number | null }
  | { kind: "block"; block: number; at: number; by: "zeros" | "other" };
/** A block that is replaced at a position: by that of another state, or by zeros. */
type Replacement = { at: number; block: number; state: Float64Array | null };
/** Where an answer stands in the prompt, and its distance to the reference over all positions. */
type Answer = { name: string; kind: string; cols: number; cells: number[]; wanted: ArrayLike<number> | null;
  distances: Float64Array | null };
type PartName = "Q" | "K" | "V" | "QK" | "KV" | "out";
type Parts = Record<PartName, Matrix>;

// -- how it is shown
type Theme = { name: "light" | "dark"; colours: Uint8ClampedArray; lines: string[]; font: string;
  mono: string; ink: string; soft: string; faint: string; line: string; panel: string; accent: string;
  grid: string };
type Looks = { scale: "block" | "global"; fit: boolean; marks: boolean; view: "auto" | "matrix" | "blocks";
  order: "auto" | "QK" | "KV"; difference: boolean };
/** `measure` reads sizes before anybody writes, `layout` follows sizes, looks and runs, `draw` the scrubber,
 *  `settle` a scrubber that came to rest. */
type Panel = { node: HTMLElement; measure?(): void; layout?(): void; draw?(): void; settle?(): void };
/** How a curve is drawn, and what it is called. */
type Key = Pick<Series, "name" | "colour" | "dash">;
type Painter = import("./painter.js").CanvasPainter | import("./painter.js").SvgPainter;
type Rect = [x: number, y: number, width: number, height: number];
type RectStyle = { fill: string } | { stroke: string; width: number; dash?: number[] };
type TextStyle = { size?: number; anchor?: "start" | "middle" | "end"; colour?: string; weight?: number;
  turn?: number; mono?: boolean };
/** Square cells; in a grid, each stands for `binR` × `binC` entries. */
type Cells = { x: number; y: number; cell: number; rows: number; cols: number };
type Grid = Cells & { w: number; h: number; binR: number; binC: number };
type Box = Grid & { block: number; own: number; label: string; turned: boolean };
type Plan = { boxes: Box[]; width: number; height: number; view: "matrix" | "blocks"; binned: boolean };
/** A part of a flat array that is read as a matrix: entry (r, c) is `values[r * width + start + c]`. */
type Slice = { values: ArrayLike<number>; width: number; start: number; rows: number; cols: number };
type Series = { name: string; colour: string; dash: string; xs: ArrayLike<number | null>;
  values: ArrayLike<number | null> };
