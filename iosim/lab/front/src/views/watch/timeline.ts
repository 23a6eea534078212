// The walk of an instance as something that can be entered anywhere: at a step, at a number of words,
// or at the k-th time that a line runs.  A moment is found by going down the tree once: what lies
// before it is counted, not walked, because all iterations of a loop but the last are alike.  Where a
// span follows the loop's tile they are not, and their counts are added up once, in a table.
import { Names, resolved, type Range, type Values } from "../../engine/space";
import type { Instance } from "../../engine/types";
import { partsOf, type Extent, type Leaf, type Nest, type Part, type Parts } from "./parts";

export interface Step {
  kind: "load" | "store" | "alloc" | "free" | "op" | "turn";
  line: number; // in the listing
  buffer: string; // of a load, a store, an alloc, a free
  tensor: string; // of a load and a store
  ranges: Range[]; // one for each axis of the tensor; (-1, 0) where only the data tells
  words: number; // that are moved, or taken or given back
  operands: readonly string[]; // buffers of an op
}

export interface Held {
  buffer: string;
  words: number;
  tensor: string; // where it was loaded from; "" for what was made here
  ranges: Range[];
}

export interface Open {
  line: number;
  name: string; // of the tile
  axis: string;
  turn: number; // from 0 on
  turns: number;
  start: number;
  stop: number;
}

export interface Moment {
  step: number; // how many steps are done
  last: Step | null; // the one just done
  held: Held[]; // in the order in which it came
  open: Open[]; // loops, outermost first
  runs: Float64Array; // how often each line has run
  words: Float64Array; // moved, by key
  moved: number; // all of them
}

// An iteration: what its tile covers, and which tile of the loop it is.
type Turn = readonly [start: number, stop: number, number: number];

// Counts before every `stride`-th iteration, and after the last one.
interface Table {
  turns: Turn[];
  stride: number;
  before: Float64Array[];
  all: Float64Array;
}

const CHECKPOINTS = 512;
const TABLES = 32;
export const MOST_STEPS = 2 ** 52;

export class Timeline {
  readonly lines: number;
  readonly keys: readonly string[]; // "load K", "store O": sorted as counts are
  readonly total: Moment; // the end
  readonly steps: number;
  readonly moved: number;
  private readonly names = new Names();
  private readonly values: Values;
  private readonly parts: Parts;
  private readonly tables = new Map<Nest, Map<string, Table>>();
  private readonly every: number[];
  private readonly any: number[];
  private readonly size: number;

  constructor(readonly instance: Instance) {
    const { program } = instance;
    this.lines = program.listing.length;
    this.keys = Object.keys(program.closed.counts);
    this.size = this.lines + this.keys.length;
    this.every = [...Array(this.lines).keys()];
    this.any = this.keys.map((_, k) => this.lines + k);
    this.parts = partsOf(program, this.keys, this.names);
    for (const name of Object.keys(instance.env)) this.names.size(name);
    this.values = this.names.values(instance.env);
    this.total = this.end();
    this.steps = this.total.step;
    this.moved = this.total.moved;
  }

  // -- where to go ---------------------------------------------------------------------------

  // After so many steps.
  at(step: number): Moment {
    const to = Math.min(Math.max(Math.floor(step), 0), this.steps);
    return to === 0 ? this.beginning() : this.seek(this.every, to);
  }

  // The last moment at which no more words were moved than these.
  atWords(words: number): Moment {
    if (words >= this.moved) return this.total;
    return this.at(this.seek(this.any, Math.max(0, Math.floor(words)) + 1).step - 1);
  }

  // After the transfer with which these words were reached.
  reaching(words: number): Moment {
    return words <= 0 ? this.beginning() : this.seek(this.any, Math.min(words, this.moved));
  }

  // After the next or the previous run of one of these lines; the end or the beginning if there is none.
  near(from: Moment, lines: readonly number[], by: 1 | -1): Moment {
    let best = by > 0 ? this.steps : 0;
    for (const line of lines) {
      const done = from.runs[line]!;
      // Of the runs before, the last one may be the step that was just done.
      const here = from.last?.line === line ? 1 : 0;
      const k = by > 0 ? done + 1 : done - here;
      if (k < 1 || k > this.total.runs[line]!) continue;
      const { step } = this.seek([line], k);
      best = by > 0 ? Math.min(best, step) : Math.max(best, step);
    }
    return this.at(best);
  }

  // The lines that move words, and those of one tensor.
  transfers(tensor?: string): number[] {
    return this.parts.leaves.filter((x) => x.key >= 0 && (!tensor || x.tensor === tensor)).map((x) => x.line);
  }

  // The ranges of the last transfers of a tensor, oldest first: at most `most`, all of one line.
  trail(moment: Moment, tensor: string, most: number): Range[][] {
    const lines = this.transfers(tensor);
    const done = lines.reduce((n, x) => n + moment.runs[x]!, 0);
    if (done === 0) return [];
    const line = lines.length === 1 ? lines[0]! : this.seek(lines, done).last!.line;
    const runs = moment.runs[line]!;
    const found: Range[][] = [];
    for (let k = Math.max(1, runs - most + 1); k <= runs; k++) found.push(this.visit(line, k));
    return found;
  }

  // How many steps are done when more words are held than these for the first time; 0: never.
  overflow(most: number): number {
    return Math.max(0, this.over(this.parts.body, { words: 0, step: 0 }, most));
  }

  // -- going down the tree -----------------------------------------------------------------

  private seek(what: readonly number[], target: number): Moment {
    const { size } = this;
    const done = new Float64Array(size);
    const held: Held[] = [];
    const open: Open[] = [];
    let rest = target;
    const worth = (counts: Float64Array) => {
      let n = 0;
      for (const k of what) n += counts[k]!;
      return n;
    };
    const one = new Float64Array(size);
    const add = (counts: Float64Array, times: number) => {
      for (let k = 0; k < size; k++) done[k]! += times * counts[k]!;
    };
    // The words that a leaf takes, gives back or moves.
    const pass = (leaf: Leaf): number => {
      if (leaf.kind === "load" || leaf.kind === "alloc") held.push(this.held(leaf));
      if (leaf.kind !== "free") return leaf.kind === "op" ? 0 : this.words(leaf);
      const at = held.map((x) => x.buffer).lastIndexOf(leaf.buffer);
      return held.splice(at, 1)[0]!.words;
    };
    const down = (body: readonly Part[]): Step | null => {
      for (const part of body) {
        one.fill(0);
        this.tally(part, 1, one);
        const n = worth(one);
        if (rest > n || n === 0) {
          rest -= n;
          add(one, 1);
          if (!part.loop) pass(part);
          continue;
        }
        if (!part.loop) {
          add(one, 1);
          return this.step(part, pass(part));
        }
        const { k, count, turn, passed } = this.enter(part, worth, rest);
        rest -= worth(passed);
        add(passed, 1);
        this.put(part, turn);
        const [start, stop] = turn;
        open.push({ line: part.line, name: part.name, axis: part.axis, turn: k, turns: count, start, stop });
        done[part.line]! += 1;
        if (what.includes(part.line)) rest -= 1;
        if (rest <= 0)
          return { kind: "turn", line: part.line, buffer: "", tensor: "", ranges: [], words: 0, operands: [] };
        return down(part.body);
      }
      throw new Error(`nothing at ${target}`);
    };
    const last = down(this.parts.body);
    return this.moment(done, last, held, open);
  }

  // The iteration of a loop in which a count is reached, and what all iterations before it count.
  private enter(nest: Nest, worth: (counts: Float64Array) => number, rest: number) {
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
    const passed = new Float64Array(this.size);
    this.put(nest, turn(0));
    this.iteration(nest, 1, passed);
    const each = worth(passed);
    const k = Math.min(each > 0 ? Math.floor((rest - 1) / each) : 0, count - 1);
    for (let x = 0; x < passed.length; x++) passed[x]! *= k;
    return { k, count, turn: turn(k), passed };
  }

  private beginning(): Moment {
    return this.moment(new Float64Array(this.size), null, [], []);
  }

  private end(): Moment {
    const done = new Float64Array(this.size);
    for (const part of this.parts.body) this.tally(part, 1, done);
    const { step } = this.moment(done, null, [], []);
    // The last step is what the listing shows; nothing is held after it.
    return step > 0 && step <= MOST_STEPS ? this.seek(this.every, step) : this.moment(done, null, [], []);
  }

  private moment(done: Float64Array, last: Step | null, held: Held[], open: Open[]): Moment {
    const runs = done.slice(0, this.lines);
    const words = done.slice(this.lines);
    const sum = (xs: Float64Array) => xs.reduce((a, b) => a + b, 0);
    return { step: sum(runs), last, held, open, runs, words, moved: sum(words) };
  }

  // -- counting ----------------------------------------------------------------------------

  // Adds what a part counts: runs by line, words by key.
  private tally(part: Part, times: number, into: Float64Array): void {
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

  private iteration(nest: Nest, times: number, into: Float64Array): void {
    into[nest.line]! += times;
    for (const part of nest.body) this.tally(part, times, into);
  }

  private table(nest: Nest): Table {
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
    const before: Float64Array[] = [];
    const all = new Float64Array(this.size);
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
  private turns(nest: Nest): Turn[] {
    const [start, stop] = resolved(nest.span, this.values);
    const by = this.by(nest);
    const found: Turn[] = [];
    const row = nest.marks && this.instance.masks[nest.marks.name]![this.values[nest.marks.rows + 2]!]!;
    for (let at = start, k = 0; at < stop; at += by, k++)
      if (!row || row[k]) found.push([at, Math.min(at + by, stop), k]);
    return found;
  }

  // One iteration of a loop whose iterations are alike, and how many there are.
  private alike(nest: Nest): { count: number; turn: (k: number) => Turn } {
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

  private put(nest: Nest, turn: Turn): void {
    this.values.set(turn, nest.tile);
  }

  // -- one line ------------------------------------------------------------------------------

  // The ranges of the k-th run of a transfer, from 1 on.
  visit(line: number, k: number): Range[] {
    const chain = this.parts.chains.get(line)!;
    let rest = k;
    for (const part of chain) {
      if (!part.loop) return this.place(part);
      if (part.varies) {
        const at = this.enter(part, (counts) => counts[line]!, rest);
        rest -= at.passed[line]!;
        this.put(part, at.turn);
        continue;
      }
      const { count, turn } = this.alike(part);
      this.put(part, turn(0));
      const each = this.runs(chain.slice(chain.indexOf(part) + 1), line);
      const at = each > 0 ? Math.min(Math.floor((rest - 1) / each), count - 1) : 0;
      rest -= at * each;
      this.put(part, turn(at));
    }
    return [];
  }

  // How often the end of a chain runs inside what is open.
  private runs(chain: readonly Part[], line: number): number {
    const [part, ...inner] = chain;
    if (!part || !part.loop) return 1;
    if (part.varies) return this.table(part).all[line]!;
    const { count, turn } = this.alike(part);
    if (count === 0) return 0;
    this.put(part, turn(0));
    const each = this.runs(inner, line);
    if (count === 1) return each;
    this.put(part, turn(count - 1));
    return (count - 1) * each + this.runs(inner, line);
  }

  // The first step after which more than `most` words are held, or -1.
  private over(body: readonly Part[], at: { words: number; step: number }, most: number): number {
    const mine = new Map<string, number>();
    for (const part of body) {
      if (!part.loop) {
        at.step += 1;
        if (part.kind === "load" || part.kind === "alloc") {
          const words = this.words(part);
          mine.set(part.buffer, words);
          at.words += words;
          if (at.words > most) return at.step;
        } else if (part.kind === "free") at.words -= mine.get(part.buffer) ?? 0;
        continue;
      }
      const { step } = at;
      // Of iterations that differ in the length of their tile only, the first holds the most.
      const { count, turn } = this.alike(part);
      const turns = part.varies ? this.turns(part) : count > 0 ? [turn(0)] : [];
      for (const one of turns) {
        this.put(part, one);
        at.step += 1;
        const found = this.over(part.body, at, most);
        if (found > 0) return found;
      }
      const counts = new Float64Array(this.size);
      this.tally(part, 1, counts);
      at.step = step + this.every.reduce((n, k) => n + counts[k]!, 0);
    }
    return -1;
  }

  private held(leaf: Leaf): Held {
    const words = this.words(leaf);
    return { buffer: leaf.buffer, words, tensor: leaf.tensor, ranges: leaf.tensor ? this.place(leaf) : [] };
  }

  private step(leaf: Leaf, words: number): Step {
    const { kind, line, buffer, tensor, operands } = leaf;
    const ranges = leaf.key >= 0 ? this.place(leaf) : [];
    return { kind, line, buffer, tensor, ranges, words, operands };
  }

  private words(leaf: Leaf): number {
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

  private place(leaf: Leaf): Range[] {
    return leaf.index.map(({ kind, at, span }): Range => {
      if (kind === "span") return resolved(span!, this.values);
      const [start, stop, number] = [this.values[at]!, this.values[at + 1]!, this.values[at + 2]!];
      if (kind === "tile") return [start, stop];
      if (kind === "own") return [0, stop - start];
      return kind === "number" ? [number, number + 1] : [-1, 0];
    });
  }

  // The loops of the program, in the order of the listing.
  get loops(): readonly Nest[] {
    return this.parts.nests;
  }
}
