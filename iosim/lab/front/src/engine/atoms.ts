/**
 * Atoms of closed forms over boxes of sizes and tiles, from below and from above; exact at a point.
 * What follows a tile is bounded as in iosim.core.counting.arrays: from above by whole axes, from below
 * by an integral, or by single positions, each of which a tile covers.
 */

import type { Closed, Value } from "./closed";
import { leastArea, leastLengths, lengthsHold } from "./integral";
import { Following } from "./ramps";
import { leastOf, sameTile, tilesOf, type Names, type Values } from "./space";
import type { Affine, Atom, Clip, Name, Part, Span, Sum, Tile } from "./types";
import { ceilDiv, floorDivBig, type Whole } from "./whole";

/** What an iteration of a loop holds at least, somewhere in a box. */
export interface Iteration { tile: Tile; extent: number; lengths: ReadonlyMap<string, number> }

/** A number over the box between two corners. */
export interface Bound<T> {
  /** Sizes and parameters that it depends on. */
  names: readonly string[];
  /** Whether it is of an open tile, and differs between iterations. */
  follows: boolean;
  least(low: Values, high: Values): T;
  most(low: Values, high: Values): T;
  /** At least, in an iteration. */
  inside(low: Values, high: Values, here: Iteration): T;
}

export const spanKey = (span: Span): string => JSON.stringify(span);

/** Atoms in one kind of whole numbers. */
export class Atoms<T> {
  readonly names: Names;

  constructor(private readonly whole: Whole<T>, private readonly closed: Closed<T>) { this.names = closed.names; }

  atom(atom: Atom): Bound<T> {
    if (typeof atom !== "string" && atom.type === "Sum") return this.sum(atom);
    const { whole } = this;
    const { names, follows, least, most, inside } = this.length(atom);
    return {
      names, follows, least: (low, high) => whole.of(least(low, high)), most: (low, high) => whole.of(most(low, high)),
      inside: (low, high, here) => whole.of(inside(low, high, here)),
    };
  }

  /** A size, a length, an extent or trips, in numbers. */
  length(atom: Exclude<Atom, Sum> | Affine): Bound<number> {
    if (typeof atom === "string") {
      const place = this.names.size(atom);
      return plain([atom], (low) => low[place]!);
    }
    switch (atom.type) {
      case "Affine": {
        const line = this.names.line(atom);
        return plain(named(atom), (low, high) => leastOf(line, low, high));
      }
      case "Trips": {
        const [line, step] = [this.names.line(atom.length), this.names.size(atom.step)];
        return plain([...named(atom.length), atom.step], (low, high) => ceilDiv(Math.max(leastOf(line, low, high), 0), high[step]!));
      }
      case "Clip": return this.clip(atom);
      case "Tile": return this.following(atom, [atom.axis], null, (here) => (sameTile(here.tile, atom) ? here.extent : 0));
      case "Part": {
        const key = spanKey(atom.span);
        return this.following(atom.span, spanNames(atom.span), atom.step,
          (here) => (atom.step === null ? here.lengths.get(key)! : 0));
      }
    }
  }

  private clip(atom: Clip): Bound<number> {
    const [length, step] = [this.length(atom.length), this.names.size(atom.step)];
    const names = [...length.names, atom.step];
    if (atom.length.type === "Affine") {
      return plain(names, (low, high) => Math.min(Math.max(length.least(low, high), 0), low[step]!));
    }
    return {
      names, follows: true, least: () => 0, most: (_, high) => high[step]!,
      inside: (low, high, here) => Math.min(length.inside(low, high, here), low[step]!),
    };
  }

  private following(
    of: { axis: string }, names: string[], step: string | null, inside: (here: Iteration) => number,
  ): Bound<number> {
    const most = this.trips(of, step);
    return { names: step === null ? names : [...names, step], follows: true, least: () => 0, most, inside: (_, __, here) => inside(here) };
  }

  /** At most so many tiles in a span of an axis, or positions. */
  private trips({ axis }: { axis: string }, step: string | null): (low: Values, high: Values) => number {
    const [extent, by] = [this.names.size(axis), step === null ? null : this.names.size(step)];
    return (low, high) => (by === null ? high[extent]! : ceilDiv(high[extent]!, low[by]!));
  }

  private sum(sum: Sum): Bound<T> {
    const { whole } = this;
    const exact = this.closed.sum(sum);
    const [trips, factors] = [this.trips(sum.span, sum.step), sum.factors.map((x) => this.atom(x))];
    const names = [...new Set([...spanNames(sum.span), ...(sum.step === null ? [] : [sum.step]), ...factors.flatMap((x) => x.names)])];
    const places = names.map((x) => this.names.size(x));
    const below = this.below(sum);
    const least = remembered(places, (low, high): T =>
      places.every((x) => low[x] === high[x]) ? whole.from(exact(low)) : below(low, high));
    return {
      names, follows: false, least,
      most: (low, high) => (low === high ? least(low, high)
        : factors.reduce((x, factor) => whole.times(x, factor.most(low, high)), whole.of(trips(low, high)))),
      inside: () => whole.of(0),
    };
  }

  /** A sum from below, over a box that is no point. */
  private below(sum: Sum): (low: Values, high: Values) => T {
    const { whole } = this;
    const parts = sum.factors.filter(isPart);
    const [part] = parts;
    const lengths = parts.length === 1 && sum.factors.length === 1 && part!.step === null;
    const area = parts.length === 1 && sum.factors.length === 2
      && sum.factors.some((x) => typeof x !== "string" && x.type === "Tile" && sameTile(x, sum.tile));
    const following = lengths || area ? Following.of(this.names, sum, part!.span) : null;
    const step = area && part!.step !== null ? this.names.size(part!.step) : null;
    const positions = this.positions(sum, parts);
    return (low, high) => {
      const box = following && following.over(low, high);
      if (box && lengths && lengthsHold(box)) return whole.of(leastLengths(box));
      if (box && area && box.valid) return whole.of(leastArea(box, step === null ? null : high[step]!));
      return positions(low, high);
    };
  }

  /** The sum over positions, divided by the steps. */
  private positions(sum: Sum, parts: Part[]): (low: Values, high: Values) => T {
    const { whole } = this;
    const extents = sum.factors.some((x) => typeof x !== "string" && x.type === "Tile");
    const others = sum.factors.some((x) => typeof x === "string" || (x.type !== "Part" && x.type !== "Tile"));
    if (others || tilesOf(sum.span).length > 0 || !parts.every((x) => covers(x.span, sum.tile))) return () => whole.of(0);
    const total: Value<bigint> = this.closed.sum({ ...sum, step: null, factors: parts.map((x) => ({ ...x, step: null })) });
    const fixed = [sum.span, ...parts.map((x) => x.span)].flatMap(spanNames).map((x) => this.names.size(x));
    const steps = [...parts.map((x) => x.step), extents ? null : sum.step].filter((x) => x !== null).map((x) => this.names.size(x));
    return (low, high) => {
      if (fixed.some((x) => low[x] !== high[x])) return whole.of(0);
      return whole.from(steps.reduce((words, x) => -floorDivBig(-words, BigInt(high[x]!)), total(low)));
    };
  }
}

const isPart = (x: Atom): x is Part => typeof x !== "string" && x.type === "Part";

/** What no tile decides: at most so much where the corners are swapped. */
function plain(names: readonly string[], least: (low: Values, high: Values) => number): Bound<number> {
  return { names, follows: false, least, most: (low, high) => least(high, low), inside: least };
}

function named(...values: Affine[]): string[] {
  return values.flatMap((x) => x.terms.map(([name]) => name).filter((name): name is string => typeof name === "string"));
}

export function spanNames(span: Span): string[] {
  return [...new Set([span.axis, ...named(span.start, span.stop, ...(span.within ?? []))])];
}

/** Whether a span of a tile covers the spans of all its positions. */
function covers(span: Span, tile: Tile): boolean {
  const moves = (value: Affine, end: "start" | "stop"): number =>
    value.terms.reduce((sum, [name, c]: [Name, number]) => (typeof name !== "string" && name.end === end ? sum + c : sum), 0);
  const tiles = tilesOf(span);
  return tiles.length > 0 && tiles.every((x) => sameTile(x, tile))
    && moves(span.start, "start") >= 0 && 0 >= moves(span.start, "stop")
    && moves(span.stop, "stop") >= 0 && 0 >= moves(span.stop, "start");
}

/** A function of some places of two corners that is asked again and again of the same. */
function remembered<T>(places: readonly number[], of: (low: Values, high: Values) => T): (low: Values, high: Values) => T {
  const seen = new Float64Array(2 * places.length);
  let last: { value: T } | null = null;
  return (low, high) => {
    if (last !== null && places.every((x, k) => seen[2 * k] === low[x] && seen[2 * k + 1] === high[x])) return last.value;
    last = null;
    last = { value: of(low, high) };
    places.forEach((x, k) => {
      seen[2 * k] = low[x]!;
      seen[2 * k + 1] = high[x]!;
    });
    return last.value;
  };
}
