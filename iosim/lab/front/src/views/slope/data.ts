// The view's data as Python makes it, and how a table is read at an M.
import { bisectLeft, bisectRight } from "d3-array";
import type { Entry } from "../../engine";
import type { Field } from "../../forms/family";

export interface Mark { name: string; M: number; says: string }
export interface Curve {
  first: number; // number of the first size in which the schedule runs
  words: number[];
  peak: number[];
  tiles: Record<string, number[]>;
}
export interface Runs { M: number[]; words: number[]; max_error: number[] }

export interface Preset {
  name: string;
  N: number;
  d: number;
  heads: number;
  sizes: number[]; // the M of the table, rising
  marks: Mark[];
  crossover: { last: number; first: number };
  curves: Record<string, Curve>;
  bounds: Record<string, (number | null)[]>;
  runs: Record<string, Runs>;
  own?: Made; // of a table that is made here
}

// What a table that is made here knows beside its numbers.
export interface Made {
  low: number; // the least and the largest M
  high: number;
  least: Record<string, number>; // the least M of each schedule
  lacks: Record<string, string>; // schedules that don't solve this problem, and why
  says: string; // the sizes and options beside N, d and heads
  options: string[]; // those that are given
  bounds: (M: number) => Record<string, number | null>;
}

export interface Schedule { name: string; title: string; cost: string; source: string; stores_scores: boolean }

export interface Bound {
  name: string;
  kind: "lower" | "upper";
  strength: "exact" | "asymptotic";
  classes: string[];
  covers: string;
  validity: string;
  source: string;
  source_with_options: string;
}

// What a table for sizes that are typed is made of: places among the entries.
export interface OwnData {
  fields: Record<string, Field>;
  follows: Record<string, string>; // the size that an option is where it is not given
  flags: string[]; // formulas may name whether these options are given
  bounds: Record<string, { applies: number; words: number; options: string[] }>;
  marks: Mark[]; // each M a place
  points: number[]; // sizes of M that are worth a row
  most: number; // the largest M
  ladder: number; // how many M are in equal ratios
  entries: Entry[];
}

export interface SlopeData {
  classes: Record<string, string>;
  schedules: Schedule[];
  bounds: Bound[];
  presets: Preset[];
  own: OwnData;
}

// A schedule at an M with its best tiles.
export interface Reading { words: number | bigint; peak: number | bigint; tiles: Record<string, number> }

// The table's own numbers, at a size of the table; undefined where the schedule does not run.
export function atSize(curve: Curve, size: number): Reading | undefined {
  const k = size - curve.first;
  if (k < 0) return undefined;
  const tiles = Object.entries(curve.tiles).map(([name, values]) => [name, values[k]!] as const);
  return { words: curve.words[k]!, peak: curve.peak[k]!, tiles: Object.fromEntries(tiles) };
}

// Numbers of the sizes at or above M, and at or below it.
export const above = (preset: Preset, M: number): number => bisectLeft(preset.sizes, M);
export const below = (preset: Preset, M: number): number => bisectRight(preset.sizes, M) - 1;

// The size that is nearest in ratio.
export function nearest(preset: Preset, M: number): number {
  const high = Math.min(above(preset, M), preset.sizes.length - 1);
  const low = Math.max(0, high - 1);
  return M / preset.sizes[low]! < preset.sizes[high]! / M ? low : high;
}

export const least = (preset: Preset): number => preset.own?.low ?? preset.sizes[0]!;
export const most = (preset: Preset): number => preset.own?.high ?? preset.sizes[preset.sizes.length - 1]!;

// The schedules that solve a problem, each with its number among all.
export const solving = (data: SlopeData, preset: Preset): (Schedule & { k: number })[] =>
  data.schedules.map((x, k) => ({ ...x, k })).filter(({ name }) => (preset.own ? name in preset.own.least : name in preset.curves));

// A lower bound in M: that of the next size, since what holds in more memory holds in less.  A
// published count: that of the size before, since what runs in less memory runs in more.
// What is made here is exact at every M.
export function boundAt(preset: Preset, bound: Bound, M: number): number | null {
  if (preset.own) return preset.own.bounds(M)[bound.name] ?? null;
  const k = bound.kind === "lower" ? above(preset, M) : below(preset, M);
  return preset.bounds[bound.name]?.[k] ?? null;
}

// The options of a problem that a bound's theorem does not cover.
export const lacking = (given: readonly string[], covered: readonly string[]): string[] => given.filter((x) => !covered.includes(x));
export const uncovered = (data: SlopeData, preset: Preset, bound: Bound): string[] =>
  lacking(preset.own?.options ?? [], data.own.bounds[bound.name]!.options);

export const covers = (bound: Bound, klass: string): boolean =>
  bound.kind === "lower" && bound.strength === "exact" && bound.classes.includes(klass);

// The largest lower bound of a class in M, and whose it is.
export function binding(data: SlopeData, preset: Preset, klass: string, M: number): { words: number; name: string } {
  let best = { words: 0, name: "" };
  for (const bound of data.bounds) {
    const words = covers(bound, klass) ? boundAt(preset, bound, M) : null;
    if (words !== null && words > best.words) best = { words, name: bound.name };
  }
  return best;
}
