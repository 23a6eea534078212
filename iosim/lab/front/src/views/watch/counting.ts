// What the parts of a program count, with the numbers of one instance: runs of lines, words by key.
import { Names, resolved, type Range, type Values } from "../../engine/space";
import type { Instance } from "../../engine";
import { partsOf, type Extent, type Leaf, type Nest, type Part, type Parts } from "./parts";

// An iteration: what its tile covers, and which tile of the loop it is.
type Turn = readonly [start: number, stop: number, number: number];

// Counts before every `stride`-th iteration, and after the last one.
interface Table {
  turns: Turn[];
  stride: number;
  before: Counted[];
  all: Counted;
}

const CHECKPOINTS = 512;
const TABLES = 32;

// Runs of every line, then words of every key.
export type Counted = Float64Array;

export class Counting {
  readonly lines: number;
  readonly keys: readonly string[]; // "load K", "store O": sorted as counts are
  readonly size: number;
  readonly parts: Parts;
  private readonly values: Values;
  private readonly tables = new Map<Nest, Map<string, Table>>();

  constructor(private readonly instance: Instance) {
    const { program, env } = instance;
    const names = new Names();
    this.lines = program.listing.length;
    this.keys = Object.keys(program.closed.counts);
    this.size = this.lines + this.keys.length;
    this.parts = partsOf(program, this.keys, names);
    for (const name of Object.keys(env)) names.size(name);
    this.values = names.values(env);
  }

  none(): Counted {
    return new Float64Array(this.size);
  }

  // Adds what a part counts: runs by line, words by key.
  tally(part: Part, times: number, into: Counted): void {
    if (!part.loop) {
      into[part.line]! += times;
      if (part.key >= 0) into[this.lines + part.key]! += times * this.words(part);
      return;
    }
    if (part.varies) {
      const { all } = this.table(part);
      for (let k = 0; k < all.length; k++) into[k]! += times * all[k]!;
      return;
    }
    const { count, turn } = this.alike(part);
    if (count > 1) {
      this.put(part, turn(0));
      this.iteration(part, times * (count - 1), into);
    }
    if (count > 0) {
      this.put(part, turn(count - 1));
      this.iteration(part, times, into);
    }
  }

  iteration(nest: Nest, times: number, into: Counted): void {
    into[nest.line]! += times;
    for (const part of nest.body) this.tally(part, times, into);
  }

  table(nest: Nest): Table {
    const { values } = this;
    const places = nest.follows.map((x) => `${values[x]}:${values[x + 1]}`);
    const lengths = nest.within.map((x) => values[x + 1]! - values[x]!);
    const key = `${places.join()} ${lengths.join()}`;
    const mine = this.tables.get(nest) ?? new Map<string, Table>();
    this.tables.set(nest, mine);
    const known = mine.get(key);
    if (known) return known;
    const turns = this.turns(nest);
    const stride = Math.max(1, Math.ceil(turns.length / CHECKPOINTS));
    const before: Counted[] = [];
    const all = this.none();
    turns.forEach((turn, k) => {
      if (k % stride === 0) before.push(all.slice());
      this.put(nest, turn);
      this.iteration(nest, 1, all);
    });
    if (mine.size >= TABLES) mine.clear();
    const made = { turns, stride, before, all };
    mine.set(key, made);
    return made;
  }

  // The iterations of a loop that run.
  turns(nest: Nest): Turn[] {
    const [start, stop] = resolved(nest.span, this.values);
    const by = this.by(nest);
    const found: Turn[] = [];
    const row = nest.marks && this.instance.masks[nest.marks.name]![this.values[nest.marks.rows + 2]!]!;
    for (let at = start, k = 0; at < stop; at += by, k++)
      if (!row || row[k]) found.push([at, Math.min(at + by, stop), k]);
    return found;
  }

  // One iteration of a loop whose iterations are alike, and how many there are.
  alike(nest: Nest): { count: number; turn: (k: number) => Turn } {
    const [start, stop] = resolved(nest.span, this.values);
    const by = this.by(nest);
    return {
      count: Math.max(0, Math.ceil((stop - start) / by)),
      turn: (k) => [start + k * by, Math.min(start + (k + 1) * by, stop), k],
    };
  }

  private by(nest: Nest): number {
    return nest.step < 0 ? 1 : this.values[nest.step]!;
  }

  put(nest: Nest, turn: Turn): void {
    this.values.set(turn, nest.tile);
  }

  // The iteration of a loop in which a count is reached, and what all iterations before it count.
  enter(nest: Nest, worth: (counts: Counted) => number, rest: number) {
    if (nest.varies) {
      const { turns, before, stride } = this.table(nest);
      let low = 0;
      let high = before.length - 1;
      while (low < high) {
        const mid = (low + high + 1) >> 1;
        if (worth(before[mid]!) < rest) low = mid;
        else high = mid - 1;
      }
      let passed = before[low]!.slice();
      let k = low * stride;
      for (; k < turns.length - 1; k++) {
        const next = passed.slice();
        this.put(nest, turns[k]!);
        this.iteration(nest, 1, next);
        if (worth(next) >= rest) break;
        passed = next;
      }
      return { k, count: turns.length, turn: turns[k]!, passed };
    }
    const { count, turn } = this.alike(nest);
    const passed = this.none();
    this.put(nest, turn(0));
    this.iteration(nest, 1, passed);
    const each = worth(passed);
    const k = Math.min(each > 0 ? Math.floor((rest - 1) / each) : 0, count - 1);
    for (let x = 0; x < passed.length; x++) passed[x]! *= k;
    return { k, count, turn: turn(k), passed };
  }

  words(leaf: Leaf): number {
    let words = 1;
    for (const x of leaf.index) words *= this.extent(x);
    return words;
  }

  private extent({ kind, at, span }: Extent): number {
    if (kind === "span") {
      const [start, stop] = resolved(span!, this.values);
      return stop - start;
    }
    return kind === "tile" || kind === "own" ? this.values[at + 1]! - this.values[at]! : 1;
  }

  place(leaf: Leaf): Range[] {
    return leaf.index.map(({ kind, at, span }): Range => {
      if (kind === "span") return resolved(span!, this.values);
      const [start, stop, number] = [this.values[at]!, this.values[at + 1]!, this.values[at + 2]!];
      if (kind === "tile") return [start, stop];
      if (kind === "own") return [0, stop - start];
      return kind === "number" ? [number, number + 1] : [-1, 0];
    });
  }
}
