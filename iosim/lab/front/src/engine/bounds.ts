/** Closed forms of a search over boxes of tiles: exact at a point, and from below over a box. */

import { Atoms, type Bound, type Iteration } from "./atoms";
import { closed, smallClosed, type Closed, type Value } from "./closed";
import { Iterations } from "./levels";
import { once, type Names, type Values } from "./space";
import type { Affine, Leaning, Level, OccupancyLine, Plan, Poly, ProgramData } from "./types";
import { BIGINTS, NUMBERS, type Whole } from "./whole";

interface Term<T> { coefficient: T; atoms: Bound<T>[] }
/** A polynomial, with the terms that are added and those that are subtracted apart. */
export interface Terms<T> { added: Term<T>[]; subtracted: Term<T>[] }
/** A level over iterations, exact at a point; null for nothing known of them over a box. */
interface OverTerms<T> { exact: Value<T>; iterations: Iterations | null }
export interface LevelTerms<T> { words: Terms<T>; runs: Bound<number>[]; over: OverTerms<T> | null }
export interface LineTerms<T> {
  base: Terms<T>; tilt: Terms<T>; slope: Terms<T>; runs: Bound<number>[];
  /** Whether the occupancy depends on the tile at all. */
  bends: boolean;
  /** The length that the tile is clipped to, if any. */
  whole: Bound<number> | null;
  /** The level that it is of, where it is over iterations. */
  level: LevelTerms<T> | null;
}
/** A level as flat + tilt·W in a hold W. */
export interface HoldTerms<T> { flat: Terms<T>; tilt: Terms<T>; level: LevelTerms<T>; runs: Bound<number>[] }
export type LeaningTerms<T> = [Terms<T>, Terms<T>, Terms<T>];
export interface EndTerms<T> {
  hold: string; axis: string; words: LeaningTerms<T>; shared: Map<string, [LeaningTerms<T>, LeaningTerms<T>]>;
}
export interface PlanTerms<T> {
  plan: Plan; total: Terms<T>; peak: LevelTerms<T>[]; lines: Map<string, LineTerms<T>[] | null>;
  reaches: Map<string, HoldTerms<T>[]>; ends: EndTerms<T> | null;
}
export interface ClosedTerms<T> { words: Terms<T>; peak: LevelTerms<T>[] }

class Compiler<T> {
  readonly atoms: Atoms<T>;
  private readonly table: Bound<T>[];

  constructor(private readonly program: ProgramData, private readonly whole: Whole<T>, private readonly closed: Closed<T>) {
    this.atoms = new Atoms(whole, closed);
    this.table = program.atoms.map((x) => this.atoms.atom(x));
  }

  plan(plan: Plan): PlanTerms<T> {
    const peak = plan.peak.map((x) => this.level(x));
    const runs = (level: Level): Bound<number>[] =>
      level.runs.filter((x): x is Affine => x.type === "Affine").map((x) => this.atoms.length(x));
    return {
      plan, peak, total: this.terms(plan.total),
      lines: new Map(Object.entries(plan.lines).map(([name, found]) => [name, found && found.map((x) => this.line(x, peak))])),
      reaches: new Map(Object.entries(plan.reaches).map(([name, found]) => [name, found.map(({ flat, tilt, level }) => ({
        flat: this.terms(flat), tilt: this.terms(tilt), level: peak[level]!, runs: runs(plan.peak[level]!),
      }))])),
      ends: plan.ends && {
        hold: plan.ends.hold, axis: plan.ends.axis, words: this.leaning(plan.ends.words),
        shared: new Map(Object.entries(plan.ends.shared).map(([name, [rest, flow]]) => [name, [this.leaning(rest), this.leaning(flow)]])),
      },
    };
  }

  /** The whole program, its plans together. */
  all(): ClosedTerms<T> {
    const { counts, peak } = this.program.closed;
    return { words: this.terms(Object.values(counts).flat()), peak: peak.map((x) => this.level(x)) };
  }

  private terms(poly: Poly): Terms<T> {
    const terms = (of: Poly): Term<T>[] =>
      of.map(([c, atoms]) => ({ coefficient: this.whole.of(Math.abs(c)), atoms: atoms.map((k) => this.table[k]!) }));
    return { added: terms(poly.filter(([c]) => c > 0)), subtracted: terms(poly.filter(([c]) => c < 0)) };
  }

  private leaning(words: Leaning): LeaningTerms<T> { return words.map((x) => this.terms(x)) as LeaningTerms<T>; }

  private level(level: Level): LevelTerms<T> {
    if (level.over.length === 0) {
      return { words: this.terms(level.words), runs: level.runs.map((x) => this.atoms.length(x)), over: null };
    }
    const used = level.words.flatMap(([, atoms]) => atoms.map((k) => this.program.atoms[k]!));
    const over = { exact: this.closed.level(level), iterations: Iterations.of(level, used, this.atoms) };
    return { words: this.terms(level.words), runs: [], over };
  }

  private line(line: OccupancyLine, peak: LevelTerms<T>[]): LineTerms<T> {
    const atom = line.atom === null ? null : this.program.atoms[line.atom]!;
    const clip = atom !== null && typeof atom !== "string" && atom.type === "Clip" ? atom : null;
    return {
      base: this.terms(line.base), tilt: this.terms(line.tilt), slope: this.terms(line.slope),
      runs: line.runs.map((x) => this.atoms.length(x)), bends: atom !== null, whole: clip && this.atoms.length(clip.length),
      level: line.level === null ? null : peak[line.level]!,
    };
  }
}

export interface Compiled<T> { names: Names; plans: PlanTerms<T>[]; all: ClosedTerms<T> }

function compile<T>(program: ProgramData, whole: Whole<T>, forms: Closed<T>): Compiled<T> {
  const compiler = new Compiler(program, whole, forms);
  return { plans: (program.plans ?? []).map((x) => compiler.plan(x)), all: compiler.all(), names: compiler.atoms.names };
}

const inNumbers = (program: ProgramData): Compiled<number> => compile(program, NUMBERS, smallClosed(program));
const inBigints = (program: ProgramData): Compiled<bigint> => compile(program, BIGINTS, closed(program));

/** The closed forms and the plans of a program, ready to be evaluated, and the places of its names. */
export function planTerms(program: ProgramData): Compiled<number> { return once(program, inNumbers); }
/** The same in bigints. */
export function largeTerms(program: ProgramData): Compiled<bigint> { return once(program, inBigints); }

/** An iteration's occupancy at least, over a box: flat + tilt·W + each·min(whole, tile). */
export interface Room<T> { flat: T; tilt: T; each: T | null; whole: number }

/** Evaluates terms in one kind of whole numbers. */
export class Reader<T> {
  constructor(readonly whole: Whole<T>) {}

  /** A polynomial from below over a box; its value where both corners are one. */
  least(terms: Terms<T>, low: Values, high: Values): T {
    const { whole } = this;
    const added = this.sum(terms.added, (atom) => atom.least(low, high));
    return terms.subtracted.length ? whole.minus(added, this.sum(terms.subtracted, (atom) => atom.most(low, high))) : added;
  }

  /** The same in an iteration. */
  inside(terms: Terms<T>, low: Values, high: Values, here: Iteration): T {
    const { whole } = this;
    const added = this.sum(terms.added, (atom) => atom.inside(low, high, here));
    return terms.subtracted.length ? whole.minus(added, this.sum(terms.subtracted, (atom) => atom.most(low, high))) : added;
  }

  /** Words that a box holds at least. */
  held(levels: LevelTerms<T>[], low: Values, high: Values): T {
    let most = this.whole.of(0);
    for (const level of levels) {
      for (const words of this.reached(level, low, high)) if (this.whole.less(most, words)) most = words;
    }
    return most;
  }

  private reached({ words, runs, over }: LevelTerms<T>, low: Values, high: Values): T[] {
    if (over === null) return runs.every((run) => run.least(low, high) > 0) ? [this.least(words, low, high)] : [];
    if (low === high) return [over.exact(low)];
    return (over.iterations?.over(low, high) ?? []).map((here) => this.inside(words, low, high, here));
  }

  /** What iterations hold at least, by lines in a tile. */
  rooms(lines: LineTerms<T>[], low: Values, high: Values): Room<T>[] {
    return lines.flatMap(({ base, tilt, slope, whole, level }) =>
      (level?.over?.iterations?.over(low, high) ?? []).map((here) => ({
        flat: this.inside(base, low, high, here), tilt: this.inside(tilt, low, high, here),
        each: whole && this.inside(slope, low, high, here), whole: whole ? whole.inside(low, high, here) : 0,
      })));
  }

  /**
   * The largest tile with which no more than a cap is held anywhere in a box; −1 for none.
   * What is as long as the tile can be leaves it at the extent.
   */
  room(lines: LineTerms<T>[], rooms: Room<T>[], low: Values, high: Values, hold: T, cap: T, extent: number): number {
    const { whole } = this;
    let room = extent;
    const take = (held: T, slope: T | null, length: number): void => {
      if (whole.less(cap, held)) room = -1;
      if (slope === null || room < 0 || !whole.less(whole.of(0), slope)) return;
      const here = whole.over(whole.minus(cap, held), slope);
      if (here < length) room = Math.min(room, here);
    };
    for (const line of lines) {
      if (line.level !== null || !line.runs.every((run) => run.least(low, high) > 0)) continue;
      take(this.least(line.base, low, high), line.bends ? this.least(line.slope, low, high) : null,
        line.whole === null ? Infinity : line.whole.least(low, high));
    }
    for (const { flat, tilt, each, whole: length } of rooms) take(whole.plus(flat, whole.times(tilt, hold)), each, length);
    return room;
  }

  private sum(terms: Term<T>[], value: (atom: Bound<T>) => T): T {
    let total = this.whole.of(0);
    for (const { coefficient, atoms } of terms) {
      let product = coefficient;
      for (const atom of atoms) product = this.whole.times(product, value(atom));
      total = this.whole.plus(total, product);
    }
    return total;
  }
}

/** At least the magnitude of any value over a box, in floating point. */
export function magnitude(terms: Terms<number>, low: Values, high: Values): number {
  return [...terms.added, ...terms.subtracted].reduce((sum, { coefficient, atoms }) =>
    sum + atoms.reduce((product, atom) => product * Math.abs(atom.most(low, high)), coefficient), 0);
}
