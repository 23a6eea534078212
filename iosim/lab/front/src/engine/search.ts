/**
 * The search for tiles: the fewest words among tiles whose peak is at most M, by branch and bound
 * over boxes of candidates.  It relies on what iosim.core.tiling.plan has proven of a program, which
 * travels as `plans`, and finds the tiles of iosim.optimal_tiles: of those that move equally many
 * words the first ones, and words that are left go to tiles on which the count doesn't depend.
 */

import { bind, checkSizes, LARGEST_SIZE, most } from "./bind";
import { largeTerms, magnitude, planTerms, Reader, type HoldTerms, type PlanTerms, type Room } from "./bounds";
import { distinctTrips, everyValue, type Choice } from "./choices";
import { peak, total } from "./closed";
import { InputError } from "./errors";
import { Heap } from "./heap";
import { endWords, holdRoom } from "./holds";
import { clip } from "./ramps";
import type { Names, Values } from "./space";
import type { Env, ProgramData, Searchable } from "./types";
import { Constraints } from "./valid";
import { BIGINTS, ceilDiv, NUMBERS, type Whole } from "./whole";

/** Tiles that `best` found. */
export interface Tiling { tiles: Env; words: bigint; peak: bigint }

/** Whether tiles are searched here, exactly; otherwise they come from a table of Python's. */
export function searchable(program: ProgramData): program is Searchable { return program.plans !== null; }

/** Sums of fewer words than this are exact in numbers, their parts too. */
const SAFE = 2 ** 52;
/** Boxes are cut into this many parts. */
const PARTS = 4;
/** The share of a side that is cut last. */
const LATE = 1e-9;

/** Ranges of positions, one for each parameter that is branched on, and a bound from below. */
interface Box<T> { low: number[]; high: number[]; bound: T }

/** The search in nests that share parameters, at one point. */
class Search<T> {
  private readonly reader: Reader<T>;
  private readonly solved: string | null;
  private readonly falls: boolean;
  private readonly cap: T;

  constructor(
    private readonly terms: PlanTerms<T>, private readonly whole: Whole<T>, private readonly names: Names,
    private readonly choices: Record<string, Choice>, private readonly base: Values, private readonly env: Env, M: number,
  ) {
    const { plan } = terms;
    this.reader = new Reader(whole);
    // Of the tiles that can be solved for, the last one with the most candidates.
    this.solved = plan.solvable.reduce<string | null>(
      (found, name) => (found === null || choices[name]!.count >= choices[found]!.count ? name : found), null);
    this.falls = plan.searched.every((name) => plan.falls.includes(name));
    this.cap = whole.of(M);
  }

  /** The positions of the cheapest tiles that fit, or null.  It can be left off after every box. */
  *tiles(): Generator<void, Record<string, number> | null> {
    const { plan } = this.terms;
    const boxed = plan.searched.filter((name) => name !== this.solved);
    const cornered = boxed.every((name) => plan.lowest.includes(name));
    const valid = this.constraints(boxed);
    const reaches = [...this.terms.reaches].map(([name, terms]) => ({ name, side: boxed.indexOf(name), terms }));
    let found: { words: T; low: number[] } | null = null;
    const first = (a: { bound: T; low: number[] }, words: T, low: number[]): boolean =>
      this.whole.less(a.bound, words) || (!this.whole.less(words, a.bound) && before(a.low, low));
    const learn = (low: number[]): void => {
      if (!valid.hold(low)) return;
      const values = this.at(boxed, low);
      if (!this.solve(values, values)) return;
      const words = this.reader.least(this.terms.total, values, values);
      if (found === null || first({ bound: words, low }, found.words, found.low)) found = { words, low };
    };
    // The lower corner, with as much of the holds as may fit beside the rest.
    const filled = (low: number[], high: number[]): number[] => {
      const at = low.slice();
      for (const { name, side, terms } of reaches) {
        const [least, most] = [this.at(boxed, at), this.at(boxed, at)];
        most[this.names.size(name)] = this.choices[name]!.value(high[side]!);
        at[side] = clip(this.beside(name, terms, least, most), low[side]!, high[side]!);
      }
      return at;
    };
    const look = (low: number[], high: number[]): Box<T> | null => {
      const [lower, upper] = [this.at(boxed, low), this.at(boxed, high)];
      for (const { name, side, terms } of reaches) {
        high[side] = Math.min(high[side]!, this.beside(name, terms, lower, upper));
        if (high[side]! < low[side]!) return null;
        upper[this.names.size(name)] = this.choices[name]!.value(high[side]!);
      }
      const rooms = this.solve(upper, lower, cornered ? lower : upper);
      if (!rooms) return null;
      return { low, high, bound: this.bound(lower, upper, rooms) };
    };
    const { ends } = this.terms;
    // Holds whose ends bounds are taken at, wherever these are, are cut last.
    const last = new Map(reaches.map(({ side }) => [side, true]));
    if (ends) last.set(boxed.indexOf(ends.hold), false);
    yield* this.branch({
      names: boxed, valid, look, learn, filled: reaches.length ? filled : null, apart: ends ? boxed.indexOf(ends.hold) : -1,
      hopeful: (box) => found === null || first(box, found.words, found.low),
      // Where nothing is cheaper, more of a hold may move as much, and then less of it decides.
      late: (side, bound) =>
        last.has(side) && !(last.get(side) && found !== null && !this.whole.less(bound, found.words)),
    });
    if (found === null) return null;
    const position = Object.fromEntries(boxed.map((name, k) => [name, (found as { low: number[] }).low[k]!]));
    for (const name of [...(this.solved === null ? [] : [this.solved]), ...plan.spare]) {
      // Words that are left go to the tiles that cost nothing: fewer, larger transfers.
      const values = this.at(Object.keys(position), Object.values(position));
      position[name] = Math.max(this.reach(name, values, values).last, 0);
    }
    return position;
  }

  /** The fewest words that any valid tiles hold; null where none is valid. */
  *leastPeak(): Generator<void, T | null> {
    const { plan, peak } = this.terms;
    const boxed = plan.searched.filter((name) => !plan.lowest.includes(name));
    const valid = this.constraints(boxed);
    let least: T | null = null;
    const learn = (low: number[]): void => {
      if (!valid.hold(low)) return;
      const values = this.at(boxed, low);
      const held = this.reader.held(peak, values, values);
      if (least === null || this.whole.less(held, least)) least = held;
    };
    const look = (low: number[], high: number[]): Box<T> =>
      ({ low, high, bound: this.reader.held(peak, this.at(boxed, low), this.at(boxed, high)) });
    yield* this.branch({
      names: boxed, valid, look, learn, filled: null, apart: -1, late: () => false,
      hopeful: (box) => least === null || this.whole.less(box.bound, least),
    });
    return least;
  }

  private constraints(names: string[]): Constraints {
    return new Constraints(this.terms.plan.constraints, names, names.map((x) => this.choices[x]!), this.env);
  }

  /** Cuts boxes, the most promising first, until none can improve on what was learnt. */
  private *branch(of: Branching<T>): Generator<void, void> {
    const heap = new Heap<Box<T>>((a, b) =>
      this.whole.less(a.bound, b.bound) || (!this.whole.less(b.bound, a.bound) && before(a.low, b.low)));
    const see: See = (low, high, known) => {
      if (!of.valid.narrow(low, high)) return;
      const learn = (at: number[]): void => { if (known === null || !same(at, known)) of.learn(at); };
      if (same(low, high)) return learn(low);
      const box = of.look(low, high);
      if (box === null || !of.hopeful(box)) return;
      learn(low);
      if (of.filled) learn(of.filled(low, high));
      heap.push(box);
    };
    const [low, high] = [of.names.map(() => 0), of.names.map((name) => this.choices[name]!.count - 1)];
    for (const [a, b] of endsApart(low[of.apart] ?? 0, high[of.apart] ?? 0)) {
      see(replaced(low, of.apart, a), replaced(high, of.apart, b), null);
    }
    for (let box = heap.pop(); box !== undefined; box = heap.pop()) {
      if (!of.hopeful(box)) continue;
      this.cut(of, box, see);
      yield;
    }
  }

  /** Cut a box along its longest side, divided by the root of all its positions. */
  private cut(of: Branching<T>, { low, high, bound }: Box<T>, see: See): void {
    const share = low.map((x, k) => (high[k]! > x
      ? ((high[k]! - x + 1) / Math.sqrt(this.choices[of.names[k]!]!.count)) * (of.late(k, bound) ? LATE : 1) : 0));
    const side = share.indexOf(Math.max(...share));
    const width = high[side]! - low[side]! + 1;
    const parts = Math.min(width, PARTS);
    const start = (part: number): number => low[side]! + Math.floor((width * part) / parts);
    for (let part = 0; part < parts; part++) {
      see(replaced(low, side, start(part)), replaced(high, side, start(part + 1) - 1), low);
    }
  }

  /** The numbers at some positions; all other parameters are at their least. */
  private at(names: string[], positions: number[]): Values {
    const values = this.base.slice();
    names.forEach((name, k) => { values[this.names.size(name)] = this.choices[name]!.value(positions[k]!); });
    return values;
  }

  /**
   * What iterations hold at least in a box, or null where it can't fit.  Where a tile is solved for,
   * `upper` gets the largest one that may fit.
   */
  private solve(upper: Values, low: Values, high: Values = low): Room<T>[] | null {
    if (this.solved === null) return this.whole.less(this.cap, this.reader.held(this.terms.peak, low, high)) ? null : [];
    const { last, rooms } = this.reach(this.solved, low, high);
    upper[this.names.size(this.solved)] = this.choices[this.solved]!.value(Math.max(last, 0));
    return last >= 0 ? rooms : null;
  }

  /** Words that a box moves at least. */
  private bound(lower: Values, upper: Values, rooms: Room<T>[]): T {
    const { total, ends } = this.terms;
    if (this.falls) return this.reader.least(total, upper, upper);
    const low = this.pinned(lower, upper);
    if (!ends) return this.reader.least(total, low, upper);
    return endWords(this.reader, ends, this.solved, low, upper, rooms, this.cap, [this.names.size(ends.hold), this.names.size(ends.axis)]);
  }

  /** The last position of a hold that may fit beside a box; −1 for none. */
  private beside(name: string, terms: HoldTerms<T>[], low: Values, high: Values): number {
    const choice = this.choices[name]!;
    return choice.floor(holdRoom(this.reader, terms, low, high, this.cap, choice.extent));
  }

  /** The last position of a tile that may fit beside a box, −1 for none, and what iterations hold there. */
  private reach(name: string, low: Values, high: Values): { last: number; rooms: Room<T>[] } {
    const choice = this.choices[name]!;
    const lines = this.terms.lines.get(name) ?? null;
    if (lines === null) return { last: this.largest(name, low, high, choice.count - 1), rooms: [] };
    const { ends } = this.terms;
    const rooms = this.reader.rooms(lines, low, high);
    const hold = this.whole.of(ends ? low[this.names.size(ends.hold)]! : 0);
    const last = choice.floor(this.reader.room(lines, rooms, low, high, hold, this.cap, choice.extent));
    // Over iterations lines are bounds, and an occupancy decides at a point.
    const decided = low !== high || lines.every((x) => x.level === null);
    return { last: decided ? last : this.largest(name, low, high, last), rooms };
  }

  /** By occupancies, which rise with the tile; `last` and steps down from it come first. */
  private largest(name: string, low: Values, high: Values, last: number): number {
    const [lower, upper] = low === high ? [low.slice()] : [low.slice(), high.slice()];
    let [first, step] = [-1, 0];
    while (first < last) {
      const middle = Math.max(last - step, ceilDiv(first + last, 2));
      lower![this.names.size(name)] = this.choices[name]!.value(middle);
      if (upper) upper[this.names.size(name)] = this.choices[name]!.value(middle);
      const held = this.reader.held(this.terms.peak, lower!, upper ?? lower!);
      if (this.whole.less(this.cap, held)) last = middle - 1;
      else first = middle;
      step = 2 * step + 1;
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

/** Takes a box; a lower corner that is known was learnt before. */
type See = (low: number[], high: number[], known: number[] | null) => void;

/** What a search does with boxes; it may cut `low` and `high` in place. */
interface Branching<T> {
  names: string[];
  valid: Constraints;
  look(low: number[], high: number[]): Box<T> | null;
  learn(at: number[]): void;
  /** Positions in a box that may be good, beside its lower corner. */
  filled: ((low: number[], high: number[]) => number[]) | null;
  hopeful(box: Box<T>): boolean;
  /** The side whose ends are cut off first; −1 for none. */
  apart: number;
  /** Whether a side is cut after all others. */
  late(side: number, bound: T): boolean;
}

/** Both ends of a range, and what is between them. */
function endsApart(low: number, high: number): [number, number][] {
  const found: [number, number][] = [[low, low], [low + 1, high - 1], [high, high]];
  return low === high ? [[low, high]] : found.filter(([a, b]) => a <= b);
}

function replaced(values: number[], k: number, by: number): number[] {
  const found = values.slice();
  if (k >= 0) found[k] = by;
  return found;
}

function same(a: number[], b: number[]): boolean { return a.every((x, k) => x === b[k]); }

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
  const at = (names: Names, position: (x: Choice) => number): Values =>
    names.values({ ...env, ...Object.fromEntries(Object.entries(choices).map(([k, x]) => [k, x.value(position(x))])) });
  const { names, plans } = planTerms(program);
  const [least, largest] = [at(names, () => 0), at(names, (x) => x.count - 1)];
  const found = plans.map((terms, k): AnySearch => {
    const sums = [terms.total, ...terms.peak.map((x) => x.words)].map((x) => magnitude(x, least, largest));
    if (Math.max(...sums) < SAFE) return new Search(terms, NUMBERS, names, choices, least, env, M);
    const large = largeTerms(program);
    return new Search(large.plans[k]!, BIGINTS, large.names, choices, at(large.names, () => 0), env, M);
  });
  return { found, choices };
}

/** A search that is run to its end, or a box at a time. */
export type Steps<R> = Generator<void, R>;

function ended<R>(steps: Steps<R>): R {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** The tiles that move the fewest words in a fast memory of M words, or the least M that works. */
export function best(program: Searchable, sizes: Env, M: number): Tiling | { smallest: number } { return ended(bestSteps(program, sizes, M)); }

/** `best`, which can be left off after every box. */
export function* bestSteps(program: Searchable, sizes: Env, M: number): Steps<Tiling | { smallest: number }> {
  if (!Number.isInteger(M) || M < 1 || M > LARGEST_SIZE) {
    throw new InputError(`M = ${M} is outside 1..${LARGEST_SIZE} (2**40): choose a size inside`, "M");
  }
  const { found, choices } = searches(program, sizes, M);
  const tiles = Object.fromEntries(program.tree.params.map((p) => [p.name, choices[p.name]!.value(0)]));
  for (const search of found) {
    const positions = yield* search.tiles();
    if (positions === null) return { smallest: yield* smallestSteps(program, sizes) };
    for (const [name, position] of Object.entries(positions)) tiles[name] = choices[name]!.value(position);
  }
  const instance = bind(program, sizes, tiles);
  return { tiles, words: total(instance), peak: peak(instance) };
}

/** The least M for which any tiles fit. */
export function smallest(program: Searchable, sizes: Env): number { return ended(smallestSteps(program, sizes)); }

function* smallestSteps(program: Searchable, sizes: Env): Steps<number> {
  let least = 0;
  for (const search of searches(program, sizes, 1).found) {
    const held = yield* search.leastPeak();
    if (held === null) throw new InputError(`${program.name} has no valid tiling at these sizes: give others`);
    least = Math.max(least, Number(held));
  }
  return least;
}
