/**
 * The search for tiles: the fewest words among tiles whose peak is at most M, by branch and bound
 * over boxes of candidates.  It relies on what iosim.tiling.plan has proven of a program, which
 * travels as `plans`, and finds the tiles of iosim.optimal_tiles: of those that move equally many
 * words the first ones, and words that are left go to tiles on which the count doesn't depend.
 */

import { bind, checkSizes, LARGEST_SIZE, most } from "./bind";
import { magnitude, planTerms, Reader, type PlanTerms } from "./bounds";
import { distinctTrips, everyValue, type Choice } from "./choices";
import { peak, total } from "./closed";
import { InputError } from "./errors";
import { Heap } from "./heap";
import type { Names, Values } from "./space";
import type { Env, ProgramData, Searchable } from "./types";
import { BIGINTS, ceilDiv, NUMBERS, type Whole } from "./whole";

/** Tiles that `best` found. */
export interface Tiling { tiles: Env; words: bigint; peak: bigint }

/** Whether tiles are searched here, exactly; otherwise they come from a table of Python's. */
export function searchable(program: ProgramData): program is Searchable { return program.plans !== null; }

/** Sums of fewer words than this are exact in numbers, their parts too. */
const SAFE = 2 ** 52;
/** Boxes are cut into this many parts. */
const PARTS = 4;

/** Ranges of positions, one for each parameter that is branched on, and a bound from below. */
interface Box<T> { low: number[]; high: number[]; bound: T }

/** The search in nests that share parameters, at one point. */
class Search<T> {
  private readonly reader: Reader<T>;
  private readonly solved: string | null;
  private readonly falls: boolean;
  private readonly cap: T;

  constructor(
    private readonly terms: PlanTerms, private readonly whole: Whole<T>, private readonly names: Names,
    private readonly choices: Record<string, Choice>, private readonly base: Values, M: number,
  ) {
    const { plan } = terms;
    this.reader = new Reader(whole);
    // Of the tiles that can be solved for, the last one with the most candidates.
    this.solved = plan.solvable.reduce<string | null>(
      (found, name) => (found === null || choices[name]!.count >= choices[found]!.count ? name : found), null);
    this.falls = plan.searched.every((name) => plan.falls.includes(name));
    this.cap = whole.of(M);
  }

  /** The positions of the cheapest tiles that fit, or null. */
  tiles(): Record<string, number> | null {
    const { plan } = this.terms;
    const boxed = plan.searched.filter((name) => name !== this.solved);
    const cornered = boxed.every((name) => plan.lowest.includes(name));
    let found: { words: T; low: number[] } | null = null;
    const first = (a: { bound: T; low: number[] }, words: T, low: number[]): boolean =>
      this.whole.less(a.bound, words) || (!this.whole.less(words, a.bound) && before(a.low, low));
    const learn = (low: number[]): void => {
      const values = this.at(boxed, low);
      if (!this.solve(values, values)) return;
      const words = this.reader.least(this.terms.total, values, values);
      if (found === null || first({ bound: words, low }, found.words, found.low)) found = { words, low };
    };
    const look = (low: number[], high: number[]): Box<T> | null => {
      const [lower, upper] = [this.at(boxed, low), this.at(boxed, high)];
      if (!this.solve(upper, lower, cornered ? lower : upper)) return null;
      const start = this.falls ? upper : this.pinned(lower, upper);
      return { low, high, bound: this.reader.least(this.terms.total, start, upper) };
    };
    this.branch(boxed, look, learn, (box) => found === null || first(box, found.words, found.low));
    if (found === null) return null;
    const position = Object.fromEntries(boxed.map((name, k) => [name, (found as { low: number[] }).low[k]!]));
    for (const name of [...(this.solved === null ? [] : [this.solved]), ...plan.spare]) {
      // Words that are left go to the tiles that cost nothing: fewer, larger transfers.
      const values = this.at(Object.keys(position), Object.values(position));
      position[name] = Math.max(this.reach(name, values, values), 0);
    }
    return position;
  }

  /** The fewest words that any tiles hold. */
  leastPeak(): T {
    const { plan, peak } = this.terms;
    const boxed = plan.searched.filter((name) => !plan.lowest.includes(name));
    let least: T | null = null;
    const learn = (low: number[]): void => {
      const values = this.at(boxed, low);
      const held = this.reader.held(peak, values, values);
      if (least === null || this.whole.less(held, least)) least = held;
    };
    const look = (low: number[], high: number[]): Box<T> =>
      ({ low, high, bound: this.reader.held(peak, this.at(boxed, low), this.at(boxed, high)) });
    this.branch(boxed, look, learn, (box) => least === null || this.whole.less(box.bound, least));
    return least!;
  }

  /** Cuts boxes, the most promising first, until none can improve on what was learnt. */
  private branch(
    names: string[], look: (low: number[], high: number[]) => Box<T> | null,
    learn: (low: number[]) => void, hopeful: (box: Box<T>) => boolean,
  ): void {
    const heap = new Heap<Box<T>>((a, b) =>
      this.whole.less(a.bound, b.bound) || (!this.whole.less(b.bound, a.bound) && before(a.low, b.low)));
    const see = (low: number[], high: number[]): void => {
      learn(low);
      if (low.every((x, k) => x === high[k])) return;
      const box = look(low, high);
      if (box !== null && hopeful(box)) heap.push(box);
    };
    see(names.map(() => 0), names.map((name) => this.choices[name]!.count - 1));
    for (let box = heap.pop(); box !== undefined; box = heap.pop()) {
      if (hopeful(box)) this.cut(names, box, see);
    }
  }

  /** Cut a box along its longest side, divided by the root of all its positions. */
  private cut(names: string[], { low, high }: Box<T>, see: (low: number[], high: number[]) => void): void {
    const share = low.map((x, k) => (high[k]! > x ? (high[k]! - x + 1) / Math.sqrt(this.choices[names[k]!]!.count) : 0));
    const side = share.indexOf(Math.max(...share));
    const width = high[side]! - low[side]! + 1;
    const parts = Math.min(width, PARTS);
    const start = (part: number): number => low[side]! + Math.floor((width * part) / parts);
    for (let part = 0; part < parts; part++) {
      see(replaced(low, side, start(part)), replaced(high, side, start(part + 1) - 1));
    }
  }

  /** The numbers at some positions; all other parameters are at their least. */
  private at(names: string[], positions: number[]): Values {
    const values = this.base.slice();
    names.forEach((name, k) => { values[this.names.size(name)] = this.choices[name]!.value(positions[k]!); });
    return values;
  }

  /**
   * Whether a box may fit.  Where a tile is solved for, `upper` gets the largest one that does.
   */
  private solve(upper: Values, low: Values, high: Values = low): boolean {
    if (this.solved === null) return !this.whole.less(this.cap, this.reader.held(this.terms.peak, low, high));
    const position = this.reach(this.solved, low, high);
    upper[this.names.size(this.solved)] = this.choices[this.solved]!.value(Math.max(position, 0));
    return position >= 0;
  }

  /** The last position of a tile that may fit beside a box; −1 for none. */
  private reach(name: string, low: Values, high: Values): number {
    const choice = this.choices[name]!;
    const lines = this.terms.lines.get(name) ?? null;
    if (lines !== null) return choice.floor(this.reader.room(lines, low, high, this.cap, choice.extent));
    const [lower, upper] = low === high ? [low.slice()] : [low.slice(), high.slice()];
    let [first, last] = [-1, choice.count - 1];
    while (first < last) {
      const middle = ceilDiv(first + last, 2);
      lower![this.names.size(name)] = choice.value(middle);
      if (upper) upper[this.names.size(name)] = choice.value(middle);
      const held = this.reader.held(this.terms.peak, lower!, upper ?? lower!);
      if (this.whole.less(this.cap, held)) last = middle - 1;
      else first = middle;
    }
    return first;
  }

  /** The lower corner, but for parameters that never move more as they grow. */
  private pinned(lower: Values, upper: Values): Values {
    const values = lower.slice();
    for (const name of this.terms.plan.falls) values[this.names.size(name)] = upper[this.names.size(name)]!;
    return values;
  }
}

function replaced(values: number[], k: number, by: number): number[] {
  const found = values.slice();
  found[k] = by;
  return found;
}

function before(a: number[], b: number[]): boolean {
  const k = a.findIndex((x, j) => x !== b[j]);
  return k >= 0 && a[k]! < b[k]!;
}

type AnySearch = Search<number> | Search<bigint>;

/** One search for each plan; parameters on which nothing depends stay at their least. */
function searches(program: Searchable, sizes: Env, M: number): { found: AnySearch[]; choices: Record<string, Choice> } {
  const env = checkSizes(program, sizes);
  for (const x of program.tree.derived ?? []) {
    if (x.of in env && x.step in env) env[x.name] = ceilDiv(env[x.of]!, env[x.step]!);
  }
  const kinds: Record<string, string> = Object.assign({}, ...program.plans.map((x) => x.candidates));
  const choices = Object.fromEntries(program.tree.params.map((p) => {
    const extent = most(p, env);
    return [p.name, kinds[p.name] === "trips" ? distinctTrips(extent) : everyValue(extent, p.least)];
  }));
  const { names, plans } = planTerms(program);
  const at = (position: (x: Choice) => number): Values =>
    names.values({ ...env, ...Object.fromEntries(Object.entries(choices).map(([k, x]) => [k, x.value(position(x))])) });
  const [least, largest] = [at(() => 0), at((x) => x.count - 1)];
  const found = plans.map((terms): AnySearch => {
    const sums = [terms.total, ...terms.peak.map((x) => x.words)].map((x) => magnitude(x, least, largest));
    return Math.max(...sums) < SAFE
      ? new Search(terms, NUMBERS, names, choices, least, M)
      : new Search(terms, BIGINTS, names, choices, least, M);
  });
  return { found, choices };
}

/** The tiles that move the fewest words in a fast memory of M words, or the least M that works. */
export function best(program: Searchable, sizes: Env, M: number): Tiling | { smallest: number } {
  if (!Number.isInteger(M) || M < 1 || M > LARGEST_SIZE) {
    throw new InputError(`M = ${M} is outside 1..${LARGEST_SIZE} (2**40): choose a size inside`, "M");
  }
  const { found, choices } = searches(program, sizes, M);
  const tiles = Object.fromEntries(program.tree.params.map((p) => [p.name, choices[p.name]!.value(0)]));
  for (const search of found) {
    const positions = search.tiles();
    if (positions === null) return { smallest: smallest(program, sizes) };
    for (const [name, position] of Object.entries(positions)) tiles[name] = choices[name]!.value(position);
  }
  const instance = bind(program, sizes, tiles);
  return { tiles, words: total(instance), peak: peak(instance) };
}

/** The least M for which any tiles fit. */
export function smallest(program: Searchable, sizes: Env): number {
  return Math.max(0, ...searches(program, sizes, 1).found.map((search) => Number(search.leastPeak())));
}
