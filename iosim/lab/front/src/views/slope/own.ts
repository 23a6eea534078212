// A table for a problem that is typed, as Python makes one for a preset: words and tiles by the engine's
// search, bounds by their formulas.  It is made a search at a time, and can be shown before it is whole.
import { ascending } from "d3-array";
import { bestSteps, evaluate, smallest, within, type Steps } from "../../engine";
import { lacking, type Curve, type Preset, type Reading, type SlopeData } from "./data";
import type { Member, Problem } from "./problem";

// Readings by schedule; null where it does not run.
type Column = Map<string, Reading | null>;

export class Own {
  readonly low: number;
  readonly high: number;
  private readonly least: Record<string, number>;
  private readonly columns = new Map<number, Column>();
  private readonly bounds = new Map<number, Record<string, number | null>>();
  private readonly searches = new Map<number, Steps<true>>();
  private readonly waiting: number[]; // from its end
  private done = 0; // readings
  private made: { done: number; preset: Preset } | undefined;

  constructor(private readonly data: SlopeData, readonly problem: Problem) {
    this.least = Object.fromEntries(problem.members.map(({ name, program, sizes }) => [name, smallest(program, sizes)]));
    const { own } = data;
    const values = this.formulas(1);
    const leasts = Object.values(this.least);
    this.low = Math.min(...leasts);
    this.high = Math.max(values[own.most]!, ...leasts.map((x) => 2 * x));
    const rungs = Array.from({ length: own.ladder }, (_, k) => Math.round(this.low * (this.high / this.low) ** (k / (own.ladder - 1))));
    const all = [...rungs, ...leasts, ...own.points.map((k) => values[k]!)].filter((M) => M >= this.low && M <= this.high);
    this.waiting = [...coarseFirst([...new Set(all)].sort(ascending)), this.high, this.low];
  }

  // Makes the column of an M before all others.
  add(M: number): void {
    if (this.waiting[this.waiting.length - 1] !== M) this.waiting.push(M);
  }

  // Searches for some milliseconds; false where nothing is left.
  work(ms: number): boolean {
    const until = performance.now() + ms;
    while (this.waiting.length > 0 && performance.now() < until) {
      const M = this.waiting[this.waiting.length - 1]!;
      if (!this.searches.has(M)) this.searches.set(M, this.search(M));
      if (!this.whole(M) && !within(this.searches.get(M)!, until - performance.now())) break;
      this.waiting.splice(this.waiting.lastIndexOf(M), 1);
    }
    return this.waiting.length > 0;
  }

  get missing(): number {
    return new Set(this.waiting.filter((M) => !this.whole(M))).size;
  }

  // What is known at an M; undefined where a schedule does not run, or is still searched.
  readings(M: number): Record<string, Reading | undefined> {
    const column = this.columns.get(M);
    return Object.fromEntries(this.problem.members.map(({ name }) => [name, column?.get(name) ?? undefined]));
  }

  // Schedules whose tiles are not found yet at an M.
  pending(M: number): string[] {
    return this.problem.members.map((x) => x.name).filter((name) => !this.columns.get(M)?.has(name));
  }

  // The table as it is so far.
  preset(): Preset {
    if (this.made?.done !== this.done) this.made = { done: this.done, preset: this.table() };
    return this.made.preset;
  }

  private whole(M: number): boolean {
    return this.columns.get(M)?.size === this.problem.members.length;
  }

  private formulas(M: number): Float64Array {
    return evaluate(this.data.own.entries, { ...this.problem.env, M });
  }

  private *search(M: number): Steps<true> {
    const column: Column = new Map();
    this.columns.set(M, column);
    for (const { name, program, sizes } of this.problem.members) {
      const found = M >= this.least[name]! ? yield* bestSteps(program, sizes, M) : undefined;
      column.set(name, found && "tiles" in found ? found : null);
      this.done += 1;
      yield;
    }
    return true;
  }

  private boundsAt(M: number): Record<string, number | null> {
    if (!this.bounds.has(M)) {
      const values = this.formulas(M);
      const words = Object.entries(this.data.own.bounds).map(([name, { applies, words, options }]) => {
        const covered = lacking(this.problem.options, options).length === 0;
        return [name, covered && values[applies] ? values[words]! : null];
      });
      this.bounds.set(M, Object.fromEntries(words));
    }
    return this.bounds.get(M)!;
  }

  private table(): Preset {
    const { problem, low, high, least } = this;
    const sizes = [...new Set([low, ...[...this.columns.keys()].filter((M) => this.whole(M)), high])].sort(ascending);
    const values = this.formulas(1);
    const bounds = sizes.map((M) => this.boundsAt(M));
    return {
      name: "One's own", ...problem.sizes, sizes, runs: {},
      curves: Object.fromEntries(problem.members.flatMap((x) => {
        const curve = this.curve(x, sizes);
        return curve ? [[x.name, curve]] : [];
      })),
      marks: this.data.own.marks.map((x) => ({ ...x, M: values[x.M]! })),
      crossover: this.crossover(sizes),
      bounds: Object.fromEntries(Object.keys(this.data.own.bounds).map((name) => [name, bounds.map((x) => x[name]!)])),
      own: {
        low, high, least, lacks: problem.lacks, says: problem.says, options: problem.options,
        bounds: (M) => this.boundsAt(M),
      },
    };
  }

  // A curve from the least M on; undefined until both of its ends are known.
  private curve({ name, program }: Member, sizes: number[]): Curve | undefined {
    const first = sizes.findIndex((M) => M >= this.least[name]!);
    const found = sizes.slice(first).flatMap((M) => this.columns.get(M)?.get(name) ?? []);
    if (first < 0 || found.length < sizes.length - first) return undefined;
    const tiles = program.tree.params.map((p) => [p.name, found.map((x) => x.tiles[p.name]!)]);
    return {
      first, words: found.map((x) => Number(x.words)), peak: found.map((x) => Number(x.peak)), tiles: Object.fromEntries(tiles),
    };
  }

  // Among the sizes of the table: the last at which storing scores wins, and the first at which not storing does.
  private crossover(sizes: number[]): { last: number; first: number } {
    const fewest = (M: number, stored: boolean): number => Math.min(...this.data.schedules
      .filter((x) => x.stores_scores === stored).map((x) => Number(this.columns.get(M)?.get(x.name)?.words ?? Infinity)));
    const whole = sizes.filter((M) => this.whole(M));
    return {
      last: whole.filter((M) => fewest(M, true) < fewest(M, false)).pop() ?? this.low,
      first: whole.find((M) => fewest(M, false) < fewest(M, true)) ?? this.high,
    };
  }
}

// An order in which any first part is spread over all of them, to be taken from its end.
function coarseFirst(sizes: readonly number[]): number[] {
  const found: number[] = [];
  const seen = new Set<number>();
  for (let step = 2 ** Math.ceil(Math.log2(sizes.length)); step >= 1; step /= 2)
    for (let k = 0; k < sizes.length; k += step) if (!seen.has(k)) seen.add(k), found.push(sizes[k]!);
  return found.reverse();
}
