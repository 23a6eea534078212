/**
 * Spans that follow the tiles of a loop, over boxes: where their ends lie, from below, as in
 * iosim.core.counting.ramps.  A span that starts at T(i.start) and stops at S(i.stop), where S and T
 * rise, has two ramps: lines, cut to a part of an axis.  Over a box of sizes the start is taken at
 * its most and the stop at its least.
 */

import { leastOf, tilesOf, type Line, type Names, type Values } from "./space";
import type { Affine, Span, Tile } from "./types";

/** Tiles that are taken one by one where all steps of a box make equally many. */
const FEW_TILES = 16;

export function clip(x: number, low: number, high: number): number { return Math.min(Math.max(x, low), high); }

/** x ↦ slope·x + start, cut to low … high; the slope is 0 or more. */
export class Ramp {
  constructor(readonly slope: number, readonly start: number, public low: number, public high: number) {}

  at(x: number): number { return clip(this.slope * x + this.start, this.low, this.high); }

  integral(first: number, last: number): number {
    if (this.slope === 0) return this.at(first) * (last - first);
    const [a, b] = [clip(this.bend(this.low), first, last), clip(this.bend(this.high), first, last)];
    const middle = (this.slope * (a + b)) / 2 + this.start;
    return (a > first ? this.at(first) * (a - first) : 0) + (b > a ? middle * (b - a) : 0)
      + (b < last ? this.at(last) * (last - b) : 0);
  }

  /** Where it meets a cut; beyond everything where it never does. */
  bend(cut: number): number { return this.slope ? (cut - this.start) / this.slope : Infinity; }
}

/** How the start rises with the tile's start, and the stop with its stop; null for others. */
function slopesOf(span: Span, tile: Tile): [number, number] | null {
  const key = (x: Tile): string => `${x.var} ${x.axis} ${x.point}`;
  const slope = (value: Affine, end: "start" | "stop"): number | null => {
    let found = 0;
    for (const [name, c] of value.terms) {
      if (typeof name === "string") continue;
      if (key(name.tile) !== key(tile) || name.end !== end) return null;
      found += c;
    }
    return found < 0 ? null : found;
  };
  const [start, stop] = [slope(span.start, "start"), slope(span.stop, "stop")];
  return start === null || stop === null ? null : [start, stop];
}

/** An affine expression without the edges of tiles. */
function sizesOf(value: Affine): Affine { return { ...value, terms: value.terms.filter(([name]) => typeof name === "string") }; }

/** The two ramps of a span, over any box. */
export class Ramps {
  private readonly ends: { slope: number; line: Line; within: Line | null; axis: Line }[];

  private constructor(names: Names, span: Span, slopes: [number, number]) {
    const axis = names.line({ type: "Affine", const: 0, terms: [[span.axis, 1]] });
    this.ends = [span.start, span.stop].map((value, k) => ({ slope: slopes[k]!, line: names.line(sizesOf(value)), within: null, axis }));
    this.within = span.within ? span.within.map((x) => names.line(x)) : null;
  }
  private readonly within: Line[] | null;

  /** null for spans of another form. */
  static of(names: Names, span: Span, tile: Tile): Ramps | null {
    const slopes = slopesOf(span, tile);
    return slopes && new Ramps(names, span, slopes);
  }

  /** The start at its most, and the stop at its least. */
  over(low: Values, high: Values): [Ramp, Ramp] {
    const ramp = (k: 0 | 1, a: Values, b: Values): Ramp => {
      const { slope, line, axis } = this.ends[k]!;
      const extent = leastOf(axis, a, b);
      let [first, last] = [0, extent];
      if (this.within) {
        first = clip(leastOf(this.within[0]!, a, b), 0, extent);
        last = Math.max(first, clip(leastOf(this.within[1]!, a, b), 0, extent));
      }
      return new Ramp(slope, leastOf(line, a, b), first, last);
    };
    return [ramp(0, high, low), ramp(1, low, high)];
  }
}

/** The tiles of a loop and a span that follows them, over a box. */
export interface Box {
  /** Where the loop starts and stops, where that is the same all over the box. */
  first: number; last: number;
  start: Ramp; stop: Ramp;
  leastBy: number; by: number;
  /** Whether the loop runs, and its ends are the same all over the box. */
  valid: boolean;
}

/** Makes the boxes of a loop and a span in it. */
export class Following {
  private constructor(
    private readonly first: Line, private readonly last: Line, private readonly step: number | null, private readonly ramps: Ramps,
  ) {}

  /** null for spans of another form. */
  static of(names: Names, loop: { tile: Tile; span: Span; step: string | null }, span: Span): Following | null {
    const ramps = Ramps.of(names, span, loop.tile);
    if (ramps === null || tilesOf(loop.span).length > 0) return null;
    const step = loop.step === null ? null : names.size(loop.step);
    return new Following(names.line(loop.span.start), names.line(loop.span.stop), step, ramps);
  }

  over(low: Values, high: Values): Box {
    const [first, last] = [leastOf(this.first, low, high), leastOf(this.last, low, high)];
    const same = first === leastOf(this.first, high, low) && last === leastOf(this.last, high, low);
    const [start, stop] = this.ramps.over(low, high);
    // What a length below 0 would take away: nothing, where one end is fixed.
    if (start.slope === 0) {
      stop.low = Math.max(stop.low, start.at(0));
      stop.high = Math.max(stop.high, stop.low);
    } else if (stop.slope === 0) {
      start.high = Math.min(start.high, stop.at(0));
      start.low = Math.min(start.low, start.high);
    }
    const [leastBy, by] = this.step === null ? [1, 1] : [low[this.step]!, high[this.step]!];
    return { first, last, start, stop, leastBy, by, valid: same && first < last };
  }
}

/** Whether no length is below 0: lines that are apart at both ends are so between them. */
export function ordered({ start, stop, first, last }: Box): boolean {
  if (start.slope === 0 || stop.slope === 0) return true;
  return [first, last].every((x) => stop.slope * x + stop.start >= start.slope * x + start.start)
    && start.low === stop.low && start.high === stop.high;
}

/** g(x) = S(x) − T(x). */
export function apart({ start, stop }: Box, x: number): number { return stop.at(x) - start.at(x); }

/** How many positions have a length above 0, from below. */
export function seen(box: Box): number {
  const { start, stop } = box;
  let [begin, end] = [box.first, box.last];
  if (stop.slope === 0) end = stop.at(0) < stop.low + 1 ? begin : end;
  else begin = Math.max(begin, Math.ceil(stop.bend(stop.low + 1)) - 1);
  if (start.slope === 0) end = start.at(0) > start.high - 1 ? begin : end;
  else end = Math.min(end, Math.floor(start.bend(start.high - 1)) + 1);
  return stop.low < stop.high && start.low < start.high && ordered(box) ? Math.max(end - begin, 0) : 0;
}

/** The least of g between two positions: at them, or where its slope rises. */
export function between(box: Box, first: number, last: number): number {
  const bends = [box.stop.bend(box.stop.low), box.start.bend(box.start.high)];
  return Math.min(apart(box, first), apart(box, last), ...bends.map((x) => apart(box, clip(x, first, last))));
}

/** The tiles of a box all of whose steps make equally many, those with any length from `empty` on. */
export interface Few { tiles: number; empty: number }

/** null where they are not equally many, or many. */
export function fewOf(box: Box): Few | null {
  const n = Math.max(box.last - box.first, 1);
  const tiles = Math.ceil(n / box.by);
  if (tiles !== Math.ceil(n / box.leastBy) || tiles <= 1 || box.leastBy >= box.by) return null;
  const empty = box.stop.slope
    ? clip(Math.floor((box.stop.bend(box.stop.low) - box.first) / box.by), 0, tiles - 1) : 0;
  return tiles - empty <= FEW_TILES ? { tiles, empty } : null;
}

/** Σ g over the places between two tiles. */
export function edgesOfFew(box: Box, { tiles, empty }: Few): number {
  let total = 0;
  for (let k = Math.max(empty, 1); k < tiles; k++) {
    total += Math.max(between(box, box.first + k * box.leastBy, box.first + k * box.by), 0);
  }
  return total;
}

/** Σ |tile|·length, or |tile|·⌈length/step⌉; lengths first, each at its least. */
export function productsOfFew(box: Box, { tiles, empty }: Few, step: number | null): number {
  const { first, start, stop, leastBy, by } = box;
  let [full, after] = [0, 0];
  for (let k = empty; k < tiles; k++) {
    const bends = [(stop.bend(stop.low) - first) / (k + 1), (start.bend(start.high) - first) / k];
    const steps = [leastBy, by, ...bends.map((x) => clip(Number.isNaN(x) ? 0 : x, leastBy, by))];
    const least = k === tiles - 1
      ? stop.at(box.last) - start.at(first + k * by)
      : Math.min(...steps.map((x) => stop.at(first + (k + 1) * x) - start.at(first + k * x)));
    after = Math.max(least, 0);
    if (step !== null) after = Math.ceil(after / step);
    full += after;
  }
  // Full tiles have B rows, and the last what is left: linear in B.
  full -= tiles * after;
  return (box.last - first) * after + Math.min(full * leastBy, full * by);
}
