// Draws one tensor on a canvas: what was visited, what is in fast memory, what is moved now.
import type { Range } from "../../engine/space";
import type { Panel, Shown } from "./panels";

interface Ink {
  tensor: string;
  paper: string;
  line: string;
  strong: string;
}

interface Box {
  x: number;
  y: number;
  w: number;
  h: number;
}

const LEAST = 2.5; // pixels: a single row among thousands is seen
const GRID = 5; // lines between tiles are drawn from this distance on

export function inkOf(canvas: HTMLCanvasElement): Ink {
  const style = getComputedStyle(canvas);
  return {
    tensor: style.color,
    paper: style.getPropertyValue("--panel"),
    line: style.getPropertyValue("--line"),
    strong: style.getPropertyValue("--fg"),
  };
}

export function draw(canvas: HTMLCanvasElement, panel: Panel, shown: Shown): void {
  const ink = inkOf(canvas);
  const { width, height } = panel;
  const scale = Math.max(1, globalThis.devicePixelRatio || 1);
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const pen = canvas.getContext("2d")!;
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.globalAlpha = 1;
  pen.fillStyle = ink.paper;
  pen.fillRect(0, 0, width, height);
  const tile = shown.moving[0] ?? shown.held[0] ?? shown.trail[shown.trail.length - 1];
  if (tile) grid(pen, panel, tile, ink.line);
  pen.fillStyle = ink.tensor;
  shown.trail.forEach((ranges, k) => {
    pen.globalAlpha = 0.08 + (0.3 * (k + 1)) / shown.trail.length;
    fill(pen, boxOf(panel, ranges));
  });
  path(pen, shown.trail.map((x) => boxOf(panel, x)), ink.tensor);
  for (const ranges of shown.held) {
    pen.globalAlpha = 0.55;
    fill(pen, boxOf(panel, ranges));
    pen.globalAlpha = 1;
    pen.strokeStyle = ink.tensor;
    pen.lineWidth = 1.5;
    stroke(pen, boxOf(panel, ranges), panel);
  }
  for (const ranges of shown.moving) {
    const box = boxOf(panel, ranges);
    pen.globalAlpha = 1;
    fill(pen, box);
    pen.strokeStyle = ink.strong;
    pen.lineWidth = 2;
    stroke(pen, box, panel);
  }
  pen.globalAlpha = 1;
}

// Where a tile lies: in the bins that it touches, and never too thin to be seen.
export function boxOf(panel: Panel, ranges: readonly Range[]): Box {
  const [x, w] = along(ranges[panel.columns], panel.extents[panel.columns], panel.width);
  const [y, h] = along(ranges[panel.rows], panel.extents[panel.rows], panel.height);
  return { x, y, w, h };
}

function along(range: Range | undefined, extent: number | undefined, pixels: number): [number, number] {
  if (!range || !extent || range[0] < 0) return [0, pixels];
  const long = ((range[1] - range[0]) * pixels) / extent;
  if (long <= 0) return [(range[0] * pixels) / extent, 0];
  const wide = Math.max(LEAST, long);
  return [Math.min((range[0] * pixels) / extent, pixels - wide), wide];
}

function grid(pen: CanvasRenderingContext2D, panel: Panel, tile: readonly Range[], color: string): void {
  pen.strokeStyle = color;
  pen.lineWidth = 1;
  pen.beginPath();
  const lines = (axis: number, pixels: number, draw: (at: number) => void) => {
    const [range, extent] = [tile[axis], panel.extents[axis]];
    if (!range || !extent || range[1] <= range[0]) return;
    const by = ((range[1] - range[0]) * pixels) / extent;
    if (by >= GRID) for (let at = by; at < pixels - 1; at += by) draw(Math.round(at) + 0.5);
  };
  lines(panel.rows, panel.height, (y) => {
    pen.moveTo(0, y);
    pen.lineTo(panel.width, y);
  });
  lines(panel.columns, panel.width, (x) => {
    pen.moveTo(x, 0);
    pen.lineTo(x, panel.height);
  });
  pen.stroke();
}

// The order of visits: a line through the middles, from the oldest to the latest.
function path(pen: CanvasRenderingContext2D, boxes: readonly Box[], color: string): void {
  if (boxes.length < 2) return;
  pen.strokeStyle = color;
  pen.lineWidth = 1.25;
  for (let k = 1; k < boxes.length; k++) {
    const [a, b] = [boxes[k - 1]!, boxes[k]!];
    pen.globalAlpha = 0.15 + (0.75 * k) / boxes.length;
    pen.beginPath();
    pen.moveTo(a.x + a.w / 2, a.y + a.h / 2);
    pen.lineTo(b.x + b.w / 2, b.y + b.h / 2);
    pen.stroke();
  }
}

const fill = (pen: CanvasRenderingContext2D, { x, y, w, h }: Box) => pen.fillRect(x, y, w, h);

// Inside the tile, so that nothing is cut at the edge.
function stroke(pen: CanvasRenderingContext2D, { x, y, w, h }: Box, panel: Panel): void {
  const half = pen.lineWidth / 2;
  const [left, top] = [Math.max(half, x), Math.max(half, y)];
  const [right, bottom] = [Math.min(panel.width - half, x + w), Math.min(panel.height - half, y + h)];
  pen.strokeRect(left, top, Math.max(0.5, right - left), Math.max(0.5, bottom - top));
}
