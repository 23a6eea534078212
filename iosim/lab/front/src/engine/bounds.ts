/** Closed forms of a search over boxes of tiles: exact at a point, and from below over a box. */

import { Names, once, type Values } from "./space";
import type { Affine, Atom, Level, OccupancyLine, Plan, Poly, ProgramData } from "./types";
import { ceilDiv, type Whole } from "./whole";

/** The least value over the box between two corners; the largest where the corners are swapped. */
type Bound = (low: Values, high: Values) => number;

interface Term { coefficient: number; atoms: Bound[] }
/** A polynomial, with the terms that are added and those that are subtracted apart. */
export interface Terms { added: Term[]; subtracted: Term[] }
export interface LevelTerms { words: Terms; runs: Bound[] }
export interface LineTerms {
  base: Terms; slope: Terms; runs: Bound[];
  /** Whether the occupancy depends on the tile at all. */
  bends: boolean;
  /** The length that the tile is clipped to, if any. */
  whole: Bound | null;
}
export interface ClosedTerms { words: Terms; peak: LevelTerms[] }
export interface PlanTerms { plan: Plan; total: Terms; peak: LevelTerms[]; lines: Map<string, LineTerms[] | null> }

class Compiler {
  readonly names = new Names();
  private readonly table: Bound[];

  constructor(private readonly program: ProgramData) { this.table = program.atoms.map((x) => this.atom(x)); }

  plan(plan: Plan): PlanTerms {
    const lines = Object.entries(plan.lines).map(([name, found]): [string, LineTerms[] | null] =>
      [name, found && found.map((line) => this.line(line))]);
    return { plan, total: this.terms(plan.total), peak: plan.peak.map((x) => this.level(x)), lines: new Map(lines) };
  }

  /** The whole program, its plans together. */
  all(): ClosedTerms {
    const { counts, peak } = this.program.closed;
    return { words: this.terms(Object.values(counts).flat()), peak: peak.map((x) => this.level(x)) };
  }

  private terms(poly: Poly): Terms {
    const all = poly.map(([coefficient, atoms]) => ({ coefficient, atoms: atoms.map((k) => this.table[k]!) }));
    return { added: all.filter((x) => x.coefficient > 0), subtracted: all.filter((x) => x.coefficient < 0) };
  }

  private level(level: Level): LevelTerms {
    return { words: this.terms(level.words), runs: level.runs.map((x) => this.atom(x)) };
  }

  private line(line: OccupancyLine): LineTerms {
    const atom = line.atom === null ? null : this.program.atoms[line.atom]!;
    const clip = atom !== null && typeof atom !== "string" && atom.type === "Clip" ? atom : null;
    return {
      base: this.terms(line.base), slope: this.terms(line.slope), runs: line.runs.map((x) => this.atom(x)),
      bends: atom !== null, whole: clip && this.atom(clip.length),
    };
  }

  private atom(atom: Atom | Affine): Bound {
    if (typeof atom === "string") {
      const place = this.names.size(atom);
      return (low) => low[place]!;
    }
    switch (atom.type) {
      case "Affine": {
        const { first, places, by } = this.names.line(atom);
        return (low, high) => places.reduce((sum, place, k) => sum + by[k]! * (by[k]! > 0 ? low : high)[place]!, first);
      }
      case "Trips": {
        const [length, step] = [this.atom(atom.length), this.names.size(atom.step)];
        return (low, high) => ceilDiv(length(low, high), high[step]!);
      }
      case "Clip": {
        const [length, step] = [this.atom(atom.length), this.names.size(atom.step)];
        return (low, high) => Math.min(length(low, high), low[step]!);
      }
      default:
        // Programs in which anything follows a tile have no plans.
        return () => { throw new Error(`a ${atom.type} has no bound over a box`); };
    }
  }
}

interface Compiled { names: Names; plans: PlanTerms[]; all: ClosedTerms }

function compile(program: ProgramData): Compiled {
  const compiler = new Compiler(program);
  return { plans: (program.plans ?? []).map((x) => compiler.plan(x)), all: compiler.all(), names: compiler.names };
}

/** The closed forms and the plans of a program, ready to be evaluated, and the places of its names. */
export function planTerms(program: ProgramData): Compiled { return once(program, compile); }

/** Evaluates terms in one kind of whole numbers. */
export class Reader<T> {
  constructor(readonly whole: Whole<T>) {}

  /** A polynomial from below over a box; its value where both corners are one. */
  least(terms: Terms, low: Values, high: Values): T {
    return this.sum(terms.subtracted, high, low, this.sum(terms.added, low, high, this.whole.of(0)));
  }

  /** Words that a box holds at least. */
  held(levels: LevelTerms[], low: Values, high: Values): T {
    let most = this.whole.of(0);
    for (const level of levels) {
      if (!level.runs.every((run) => run(low, high) > 0)) continue;
      const words = this.least(level.words, low, high);
      if (this.whole.less(most, words)) most = words;
    }
    return most;
  }

  /**
   * The largest tile with which no more than a cap is held anywhere in a box; −1 for none.
   * What is as long as the tile can be leaves it at the extent.
   */
  room(lines: LineTerms[], low: Values, high: Values, cap: T, extent: number): number {
    const { whole } = this;
    let room = extent;
    for (const line of lines) {
      if (!line.runs.every((run) => run(low, high) > 0)) continue;
      const held = this.least(line.base, low, high);
      if (whole.less(cap, held)) return -1;
      if (!line.bends) continue;
      const slope = this.least(line.slope, low, high);
      if (!whole.less(whole.of(0), slope)) continue;
      const here = whole.over(whole.minus(cap, held), slope);
      if (line.whole === null || here < line.whole(low, high)) room = Math.min(room, here);
    }
    return room;
  }

  private sum(terms: Term[], low: Values, high: Values, first: T): T {
    let total = first;
    for (const { coefficient, atoms } of terms) {
      let product = this.whole.of(coefficient);
      for (const atom of atoms) product = this.whole.times(product, this.whole.of(atom(low, high)));
      total = this.whole.plus(total, product);
    }
    return total;
  }
}

/** At least the magnitude of any value over a box, in floating point. */
export function magnitude(terms: Terms, low: Values, high: Values): number {
  return [...terms.added, ...terms.subtracted].reduce((sum, { coefficient, atoms }) =>
    sum + atoms.reduce((product, atom) => product * Math.abs(atom(high, low)), Math.abs(coefficient)), 0);
}
