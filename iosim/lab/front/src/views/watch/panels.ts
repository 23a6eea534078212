// How tensors lie on the page: which axes are rows and columns, how large they are, what is in them.
import type { Range } from "../../engine/space";
import type { Index, Node, ProgramData, Tensor } from "../../engine";
import type { Side } from "./setup";
import type { Held, Moment } from "./timeline";

export interface Panel {
  tensor: Tensor;
  lead: number[]; // axes of which one position at a time is touched: heads
  rows: number; // the axis that goes down; -1: none
  columns: number; // the axis that goes across; -1: none
  width: number; // in pixels
  height: number;
  extents: number[]; // of all axes
}

export interface Shown {
  lead: Range[]; // the position that is shown
  trail: Range[][]; // oldest first
  held: Range[][];
  moving: Range[][];
  way: Way | null;
}

// How words are moved; atomic operations read and write them.
export type Way = "load" | "store" | "atomic";

export const TRAIL = 64;

export function panels(side: Side, height: number): Panel[] {
  const { env } = side.instance;
  const { tensors, body } = side.program.tree;
  const points = pointAxes(body);
  const found = tensors.map((tensor): Panel => {
    const extents = tensor.axes.map((x) => env[x]!);
    const single = points.get(tensor.name) ?? new Set<number>();
    const wide = tensor.axes.map((_, k) => k).filter((k) => !single.has(k)).slice(-2);
    const [rows = -1, columns = -1] = wide;
    const lead = tensor.axes.map((_, k) => k).filter((k) => !wide.includes(k));
    return { tensor, lead, rows, columns, width: 0, height: 0, extents };
  });
  return sized(found, height);
}

// Lengths are drawn by their square root, so that N × d can be seen beside N × N.
export function sized(found: readonly Panel[], height: number): Panel[] {
  const long = Math.max(1, ...found.flatMap((x) => [x.extents[x.rows] ?? 1, x.extents[x.columns] ?? 1]));
  const pixels = (extent: number | undefined) =>
    Math.max(10, Math.round(height * Math.sqrt((extent ?? 1) / long)));
  return found.map((x) => ({ ...x, width: pixels(x.extents[x.columns]), height: pixels(x.extents[x.rows]) }));
}

// Tensor → its axes that are only ever indexed at single positions.
function pointAxes(body: readonly Node[]): Map<string, Set<number>> {
  const found = new Map<string, Set<number>>();
  for (const node of body) {
    if (node.type === "Loop") {
      for (const [tensor, axes] of pointAxes(node.body)) meet(found, tensor, axes);
    } else if (node.type === "Load" || node.type === "Store") {
      const parts = node.index.flatMap((x: Index) => (x.type === "Stack" ? x.parts : [x]));
      const single = parts.map((x, k) => (isPoint(x) ? k : -1)).filter((k) => k >= 0);
      meet(found, node.tensor, new Set(single));
    }
  }
  return found;
}

const isPoint = (x: Index): boolean =>
  x.type === "Number" || x.type === "At" || (x.type === "Tile" && x.point);

function meet(into: Map<string, Set<number>>, tensor: string, axes: Set<number>): void {
  const known = into.get(tensor);
  into.set(tensor, known ? new Set([...known].filter((x) => axes.has(x))) : axes);
}

export function shown(side: Side, moment: Moment, panel: Panel): Shown {
  const { name } = panel.tensor;
  const { last } = moment;
  const all = side.timeline.trail(moment, name, TRAIL);
  const held = moment.held.filter((x) => x.tensor === name).map((x) => x.ranges);
  const moving = last && last.tensor === name ? last.ranges : null;
  const lead = leadOf(panel, moving ?? held[held.length - 1] ?? all[all.length - 1] ?? []);
  const here = (ranges: Range[]) => String(leadOf(panel, ranges)) === String(lead);
  return {
    lead, trail: all.filter(here), held: held.filter(here), moving: moving ? [moving] : [],
    way: moving && (last!.kind as Way),
  };
}

const leadOf = (panel: Panel, ranges: Range[]): Range[] =>
  panel.lead.map((k) => ranges[k] ?? [0, 1]);

// The tensor that a buffer was loaded from, or is stored to; its own name if there is none.
export function tensorOfBuffer(program: ProgramData, held: Held): string {
  return held.tensor || (storesOf(program.tree.body).get(held.buffer) ?? held.buffer);
}

function storesOf(body: readonly Node[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const node of body) {
    if (node.type === "Store") found.set(node.buffer, node.tensor);
    if (node.type === "Loop") for (const [x, t] of storesOf(node.body)) if (!found.has(x)) found.set(x, t);
  }
  return found;
}
