// A table for sizes that are typed, as Python makes one for a preset: words and tiles by the engine's
// search, bounds by their formulas.  It is made a column at a time, and can be shown before it is whole.
import { ascending } from "d3-array";
import { best, evaluate, searchable, smallest, type Env, type ProgramData, type Searchable } from "../../engine";
import type { Preset, Reading, SlopeData } from "./data";

interface Column { readings: Record<string, Reading | undefined>; bounds: Record<string, number | null> }

export class Own {
  readonly low: number;
  readonly high: number;
  private readonly programs: [name: string, program: Searchable][];
  private readonly least: Record<string, number>;
  private readonly columns = new Map<number, Column>();
  private readonly waiting: number[];
  private made: { columns: number; preset: Preset } | undefined;

  constructor(private readonly data: SlopeData, programs: Record<string, unknown>, private readonly sizes: Env) {
    this.programs = data.schedules.flatMap(({ name }): [string, Searchable][] => {
      const program = programs[name] as ProgramData | undefined;
      return program && searchable(program) ? [[name, program]] : [];
    });
    this.least = Object.fromEntries(this.programs.map(([name, program]) => [name, smallest(program, sizes)]));
    const { own } = data;
    const values = this.formulas(1);
    const leasts = Object.values(this.least);
    this.low = Math.min(...leasts);
    this.high = Math.max(values[own.most]!, ...leasts.map((x) => 2 * x));
    const rungs = Array.from({ length: own.ladder }, (_, k) => Math.round(this.low * (this.high / this.low) ** (k / (own.ladder - 1))));
    const all = [...rungs, ...leasts, ...own.points.map((k) => values[k]!)].filter((M) => M >= this.low && M <= this.high);
    this.waiting = coarseFirst([...new Set(all)].sort(ascending));
    this.add(this.low);
    this.add(this.high);
  }

  // Makes the column of an M at once.
  add(M: number): void {
    if (!this.columns.has(M)) this.columns.set(M, this.column(M));
  }

  // Makes a column that is missing; false where none is.
  work(): boolean {
    const M = this.waiting.pop();
    if (M !== undefined) this.add(M);
    return this.waiting.length > 0;
  }

  get missing(): number {
    return this.waiting.length;
  }

  readings(M: number): Record<string, Reading | undefined> {
    this.add(M);
    return this.columns.get(M)!.readings;
  }

  // The table as it is so far.
  preset(): Preset {
    if (this.made?.columns !== this.columns.size) this.made = { columns: this.columns.size, preset: this.table() };
    return this.made.preset;
  }

  private formulas(M: number): Float64Array {
    return evaluate(this.data.own.entries, { ...this.sizes, M });
  }

  private column(M: number): Column {
    const values = this.formulas(M);
    const readings = Object.fromEntries(this.programs.map(([name, program]) => {
      const found = M >= this.least[name]! ? best(program, this.sizes, M) : undefined;
      return [name, found && "tiles" in found ? found : undefined];
    }));
    const bounds = Object.fromEntries(Object.entries(this.data.own.bounds).map(([name, { applies, words }]) =>
      [name, values[applies] ? values[words]! : null]));
    return { readings, bounds };
  }

  private table(): Preset {
    const { N, d, heads } = this.sizes as { N: number; d: number; heads: number };
    const sizes = [...this.columns.keys()].sort(ascending);
    const columns = sizes.map((M) => this.columns.get(M)!);
    const values = this.formulas(1);
    const curves = Object.fromEntries(this.programs.map(([name, program]) => {
      const found = columns.flatMap((x) => x.readings[name] ?? []);
      const tiles = program.tree.params.map((p) => [p.name, found.map((x) => x.tiles[p.name]!)]);
      return [name, {
        first: columns.length - found.length, words: found.map((x) => Number(x.words)),
        peak: found.map((x) => Number(x.peak)), tiles: Object.fromEntries(tiles),
      }];
    }));
    return {
      name: "One's own", N, d, heads, sizes, curves, runs: {},
      marks: this.data.own.marks.map((x) => ({ ...x, M: values[x.M]! })),
      crossover: this.crossover(sizes, columns),
      bounds: Object.fromEntries(Object.keys(this.data.own.bounds).map((name) => [name, columns.map((x) => x.bounds[name]!)])),
      least: this.least,
    };
  }

  // Among the sizes of the table: the last at which storing scores wins, and the first at which not storing does.
  private crossover(sizes: number[], columns: Column[]): { last: number; first: number } {
    const fewest = (column: Column, stored: boolean): number => Math.min(...this.data.schedules
      .filter((x) => x.stores_scores === stored).map((x) => Number(column.readings[x.name]?.words ?? Infinity)));
    const [last, first] = [(x: Column) => fewest(x, true) < fewest(x, false), (x: Column) => fewest(x, false) < fewest(x, true)];
    return {
      last: sizes[columns.map(last).lastIndexOf(true)] ?? this.low,
      first: sizes[columns.map(first).indexOf(true)] ?? this.high,
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
