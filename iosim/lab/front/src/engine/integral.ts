/**
 * Sums over the tiles of a loop from below, for every step between two, as in
 * iosim.core.counting.integral: by the integral of lengths along the loop.
 */

import { apart, between, clip, edgesOfFew, fewOf, ordered, productsOfFew, Ramps, seen, type Box, type Ramp } from "./ramps";
import type { Names, Values } from "./space";
import type { Span, Tile } from "./types";

/** More than what rounding adds to a sum of a few terms. */
const ROUNDING = 1e-12;
const LARGEST = 2 ** 61;

/** Σ of one length. */
export function leastLengths(box: Box): number {
  const { first, last, start, stop, leastBy, by } = box;
  const ends = [apart(box, first), apart(box, last)] as const;
  const n = Math.max(last - first, 1);
  const [above, below] = [stop.integral(first, last), start.integral(first, last)];
  const area = above - below;
  let lost = (ends[0] + ends[1]) / 2;
  for (const [ramp, cut] of [[stop, stop.high], [start, start.low]] as [Ramp, number][]) {
    const a = clip(Math.min(ramp.bend(cut) - first, last - ramp.bend(cut)), 0, by / 2);
    lost += (ramp.slope * a * (by - a)) / (2 * by);
  }
  // Where the slope of g rises in the first tile, the trapezoid has more than the integral.
  for (const [ramp, cut] of [[stop, stop.low], [start, start.high]] as [Ramp, number][]) {
    const a = Math.min(Math.max(ramp.bend(cut) - first, 0), last - first);
    if (a < leastBy && leastBy < last - first) lost -= (ramp.slope * a * (leastBy - a)) / (2 * leastBy);
  }
  // The least of g in the last tile: at its ends, or where its slope rises.
  const both = ends[1] + between(box, Math.max(first, last - by), last);
  const tiles = Math.ceil((n / by) * (1 - ROUNDING));
  // Steps of more tiles are below n/tiles, and the others from there on.
  const fewer = Math.min(Math.max(leastBy, n / tiles), by);
  const left = area - (n * Math.max(both, 0)) / 2;
  const some = left / (left >= 0 ? by : fewer) + (tiles * Math.max(both, 0)) / 2;
  const more = leastBy * tiles < n ? (area * tiles) / n : Infinity;
  let inner = Math.max(area / by, Math.min(some, more)) - lost;
  const size = (Math.abs(above) + Math.abs(below)) / Math.max(fewer, 1) + tiles * Math.abs(both) + Math.abs(lost);
  inner = Math.max(inner - 8 * ROUNDING * size, 0);
  const few = fewOf(box);
  if (few !== null) inner = Math.max(inner, edgesOfFew(box, few));
  return whole((stop.at(last) - start.at(first) + inner) * (1 - ROUNDING) - ROUNDING);
}

/** Whether `leastLengths` holds in a box. */
export function lengthsHold(box: Box): boolean { return box.valid && ordered(box); }

/** Σ |tile|·length, or of |tile|·⌈length/step⌉ with a step's largest value. */
export function leastArea(box: Box, step: number | null): number {
  const { first, last, start, stop, leastBy: by } = box;
  const [above, below] = [stop.integral(first, last), start.integral(first, last)];
  let words = above - below;
  let size = Math.abs(above) + Math.abs(below);
  for (const ramp of [start, stop]) {
    // Bends between two positions take away at most an eighth of the slope each.
    words += (ramp.at(last) - ramp.at(first)) / 2 - (ramp.slope > 1 ? ramp.slope / 4 : 0);
    if (!ramp.slope) continue;
    const a = clip(Math.ceil(ramp.bend(ramp.low)), first, last);
    const b = clip(Math.floor(ramp.bend(ramp.high)), first, last);
    const long = Math.max(b - a, 0);
    const short = Math.min(by, long);
    const rest = long - Math.floor(long / by) * by;
    const squares = a <= first ? (long - rest) * by + rest ** 2 : (long - short / 2) * short;
    words += (ramp.slope * Math.max(squares - long, 0)) / 2;
    size += squares;
  }
  words -= 8 * ROUNDING * size + ROUNDING;
  if (step !== null) words = Math.max(words / step, seen(box));
  const few = fewOf(box);
  if (few !== null) words = Math.max(words, productsOfFew(box, few, step));
  return whole(words);
}

function whole(words: number): number { return clip(Math.ceil(words), 0, LARGEST); }

/** The lengths of a span that follows a tile, from below over a box. */
export class Lengths {
  private readonly ramps: Ramps | null;

  constructor(names: Names, span: Span, tile: Tile) { this.ramps = Ramps.of(names, span, tile); }

  over(low: Values, high: Values): Shortest { return new Shortest(this.ramps && this.ramps.over(low, high)); }
}

/** Lengths in one box. */
export class Shortest {
  constructor(private readonly ramps: [Ramp, Ramp] | null) {}

  /** The position up to `last` where it is longest, as long as its start rises no faster. */
  longest(first: number, last: number): number {
    if (this.ramps === null) return last;
    return Math.floor(clip(this.ramps[1].bend(this.ramps[1].high), first, last));
  }

  /**
   * The least of S(y) − T(y − extent) over the stops y between two: at its ends or bends.
   * `extent` is what the tile covers at least.
   */
  least(extent: number, first: number, last: number): number {
    if (this.ramps === null) return 0;
    const [low, high] = this.ramps;
    if (low.slope === 0) return Math.max(Math.floor(high.at(first) - low.at(0)), 0);
    const bends = [high.bend(high.low), low.bend(low.high) + extent].map((x) => clip(x, first, last));
    return Math.max(Math.floor(Math.min(...[first, last, ...bends].map((y) => high.at(y) - low.at(y - extent)))), 0);
  }
}
