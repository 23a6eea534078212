/**
 * The one place that resolves the names of a program: axes, tile parameters, spans and tiles.
 * Names become places in an array of numbers, once per program.
 */

import type { Affine, Name, Plain, Index, ProgramData, Span, Tile } from "./types";

/** Numbers by the places that `Names` gives. */
export type Values = Float64Array;
export type Range = [number, number];

/** const + Σ coefficient·value, with places instead of names. */
export interface Line { readonly first: number; readonly places: readonly number[]; readonly by: readonly number[] }

/** A span with places instead of names. */
export interface Place {
  readonly axis: number; readonly start: Line; readonly stop: Line;
  /** Whether it names edges of open tiles, so that it is cut at the ends of its axis. */
  readonly moves: boolean;
  readonly within: readonly [Line, Line] | null;
}

function keyOf(tile: Tile): string { return `${tile.var} ${tile.axis} ${tile.point}`; }

export function sameTile(a: Tile, b: Tile): boolean {
  return a.var === b.var && a.axis === b.axis && a.point === b.point;
}

export function edgesOf(...values: Affine[]): Tile[] {
  return values.flatMap((x) => x.terms.flatMap(([name]) => (typeof name === "string" ? [] : [name.tile])));
}

/** The tiles whose edges a span names; none where it is fixed. */
export function tilesOf(span: Span): Tile[] { return edgesOf(span.start, span.stop); }

/** One index for each axis of a tensor: stacks are taken apart. */
export function unstacked(index: Index[]): Plain[] {
  return index.flatMap((x) => (x.type === "Stack" ? x.parts : [x]));
}

/** Where every name of a program has its number. */
export class Names {
  private readonly places = new Map<string, number>();

  size(name: string): number { return this.at(name); }
  /** Three places for a tile: its first position, the one after its last, and its number. */
  tile(tile: Tile): number {
    const key = ` ${keyOf(tile)}`;
    const first = this.at(key);
    this.at(`${key} stop`);
    this.at(`${key} number`);
    return first;
  }
  get count(): number { return this.places.size; }

  line(value: Affine): Line {
    return {
      first: value.const,
      places: value.terms.map(([name]) => this.name(name)),
      by: value.terms.map(([, c]) => c),
    };
  }

  place(span: Span): Place {
    return {
      axis: this.size(span.axis), start: this.line(span.start), stop: this.line(span.stop),
      moves: tilesOf(span).length > 0,
      within: span.within ? [this.line(span.within[0]), this.line(span.within[1])] : null,
    };
  }

  /** Numbers for all names that `env` gives. */
  values(env: Record<string, number>): Values {
    const values = new Float64Array(this.count);
    for (const [name, value] of Object.entries(env)) {
      const place = this.places.get(name);
      if (place !== undefined) values[place] = value;
    }
    return values;
  }

  private name(name: Name): number {
    return typeof name === "string" ? this.size(name) : this.tile(name.tile) + (name.end === "stop" ? 1 : 0);
  }

  private at(key: string): number {
    const found = this.places.get(key);
    if (found !== undefined) return found;
    this.places.set(key, this.places.size);
    return this.places.size - 1;
  }
}

export function valueOf(line: Line, values: Values): number {
  let total = line.first;
  for (let k = 0; k < line.places.length; k++) total += line.by[k]! * values[line.places[k]!]!;
  return total;
}

/** The least value between two corners of a box; the largest where the corners are swapped. */
export function leastOf(line: Line, low: Values, high: Values): number {
  let total = line.first;
  for (let k = 0; k < line.places.length; k++) {
    const c = line.by[k]!;
    total += c * (c > 0 ? low : high)[line.places[k]!]!;
  }
  return total;
}

/** The concrete [start, stop] of a span. */
export function resolved(span: Place, values: Values): Range {
  const start = valueOf(span.start, values), stop = valueOf(span.stop, values);
  if (!span.moves) return [start, stop];
  const [low, high] = allowed(span, values);
  const first = Math.min(Math.max(start, low), high);
  return [first, Math.max(first, Math.min(stop, high))];
}

/** Where a span that names edges may lie: in its axis, as far as that is `within`. */
export function allowed(span: Place, values: Values): Range {
  const extent = values[span.axis]!;
  if (span.within === null) return [0, extent];
  const low = Math.min(Math.max(valueOf(span.within[0], values), 0), extent);
  return [low, Math.max(low, Math.min(valueOf(span.within[1], values), extent))];
}

const made = new WeakMap<ProgramData, Map<unknown, unknown>>();

/** What is derived from a program once: `make` runs the first time only. */
export function once<T>(program: ProgramData, make: (program: ProgramData) => T): T {
  const mine = made.get(program) ?? new Map<unknown, unknown>();
  made.set(program, mine);
  if (!mine.has(make)) mine.set(make, make(program));
  return mine.get(make) as T;
}
