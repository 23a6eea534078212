// The walk of an instance as something that can be entered anywhere: at a step, at a number of words,
// or at the k-th time that a line runs.  A moment is found by going down the tree once: what lies
// before it is counted, not walked, because all iterations of a loop but the last are alike.  Where a
// span follows the loop's tile they are not, and their counts are added up once, in a table.
import type { Instance, Range } from "../../engine";
import { Counting, type Counted } from "./counting";
import type { Leaf, Nest, Part, Parts } from "./parts";

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

export const MOST_STEPS = 2 ** 52;

export class Timeline {
  readonly total: Moment; // the end
  readonly steps: number;
  readonly moved: number;
  private readonly counting: Counting;
  private readonly every: number[]; // the places of all lines
  private readonly any: number[]; // the places of all words

  constructor(readonly instance: Instance) {
    this.counting = new Counting(instance);
    const { lines, keys } = this.counting;
    this.every = [...Array(lines).keys()];
    this.any = keys.map((_, k) => lines + k);
    this.total = this.end();
    this.steps = this.total.step;
    this.moved = this.total.moved;
  }

  // What is counted: "load K", "store O".
  get keys(): readonly string[] {
    return this.counting.keys;
  }

  // The loops of the program, in the order of the listing.
  get loops(): readonly Nest[] {
    return this.parts.nests;
  }

  private get parts(): Parts {
    return this.counting.parts;
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
    const done = this.counting.none();
    const held: Held[] = [];
    const open: Open[] = [];
    let rest = target;
    const worth = (counts: Counted) => {
      let n = 0;
      for (const k of what) n += counts[k]!;
      return n;
    };
    const one = this.counting.none();
    const add = (counts: Counted) => {
      for (let k = 0; k < done.length; k++) done[k]! += counts[k]!;
    };
    // The words that a leaf takes, gives back or moves.
    const pass = (leaf: Leaf): number => {
      if (leaf.kind === "load" || leaf.kind === "alloc") held.push(this.held(leaf));
      if (leaf.kind !== "free") return leaf.kind === "op" ? 0 : this.counting.words(leaf);
      const at = held.map((x) => x.buffer).lastIndexOf(leaf.buffer);
      return held.splice(at, 1)[0]!.words;
    };
    const down = (body: readonly Part[]): Step | null => {
      for (const part of body) {
        one.fill(0);
        this.counting.tally(part, 1, one);
        const n = worth(one);
        if (rest > n || n === 0) {
          rest -= n;
          add(one);
          if (!part.loop) pass(part);
          continue;
        }
        if (!part.loop) {
          add(one);
          return this.step(part, pass(part));
        }
        const { k, count, turn, passed } = this.counting.enter(part, worth, rest);
        rest -= worth(passed);
        add(passed);
        this.counting.put(part, turn);
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

  private beginning(): Moment {
    return this.moment(this.counting.none(), null, [], []);
  }

  private end(): Moment {
    const done = this.counting.none();
    for (const part of this.parts.body) this.counting.tally(part, 1, done);
    const { step } = this.moment(done, null, [], []);
    // The last step is what the listing shows; nothing is held after it.
    return step > 0 && step <= MOST_STEPS ? this.seek(this.every, step) : this.moment(done, null, [], []);
  }

  private moment(done: Counted, last: Step | null, held: Held[], open: Open[]): Moment {
    const runs = done.slice(0, this.counting.lines);
    const words = done.slice(this.counting.lines);
    const sum = (xs: Float64Array) => xs.reduce((a, b) => a + b, 0);
    return { step: sum(runs), last, held, open, runs, words, moved: sum(words) };
  }

  // -- one line ------------------------------------------------------------------------------

  // The ranges of the k-th run of a transfer, from 1 on.
  visit(line: number, k: number): Range[] {
    const chain = this.parts.chains.get(line)!;
    let rest = k;
    for (const part of chain) {
      if (!part.loop) return this.counting.place(part);
      if (part.varies) {
        const at = this.counting.enter(part, (counts) => counts[line]!, rest);
        rest -= at.passed[line]!;
        this.counting.put(part, at.turn);
        continue;
      }
      const { count, turn } = this.counting.alike(part);
      this.counting.put(part, turn(0));
      const each = this.runs(chain.slice(chain.indexOf(part) + 1), line);
      const at = each > 0 ? Math.min(Math.floor((rest - 1) / each), count - 1) : 0;
      rest -= at * each;
      this.counting.put(part, turn(at));
    }
    return [];
  }

  // How often the end of a chain runs inside what is open.
  private runs(chain: readonly Part[], line: number): number {
    const [part, ...inner] = chain;
    if (!part || !part.loop) return 1;
    if (part.varies) return this.counting.table(part).all[line]!;
    const { count, turn } = this.counting.alike(part);
    if (count === 0) return 0;
    this.counting.put(part, turn(0));
    const each = this.runs(inner, line);
    if (count === 1) return each;
    this.counting.put(part, turn(count - 1));
    return (count - 1) * each + this.runs(inner, line);
  }

  // The first step after which more than `most` words are held, or -1.
  private over(body: readonly Part[], at: { words: number; step: number }, most: number): number {
    const mine = new Map<string, number>();
    for (const part of body) {
      if (!part.loop) {
        at.step += 1;
        if (part.kind === "load" || part.kind === "alloc") {
          const words = this.counting.words(part);
          mine.set(part.buffer, words);
          at.words += words;
          if (at.words > most) return at.step;
        } else if (part.kind === "free") at.words -= mine.get(part.buffer) ?? 0;
        continue;
      }
      const { step } = at;
      // Of iterations that differ in the length of their tile only, the first holds the most.
      const { count, turn } = this.counting.alike(part);
      const turns = part.varies ? this.counting.turns(part) : count > 0 ? [turn(0)] : [];
      for (const one of turns) {
        this.counting.put(part, one);
        at.step += 1;
        const found = this.over(part.body, at, most);
        if (found > 0) return found;
      }
      const counts = this.counting.none();
      this.counting.tally(part, 1, counts);
      at.step = step + this.every.reduce((n, k) => n + counts[k]!, 0);
    }
    return -1;
  }

  private held(leaf: Leaf): Held {
    const words = this.counting.words(leaf);
    return { buffer: leaf.buffer, words, tensor: leaf.tensor, ranges: leaf.tensor ? this.counting.place(leaf) : [] };
  }

  private step(leaf: Leaf, words: number): Step {
    const { kind, line, buffer, tensor, operands } = leaf;
    const ranges = leaf.key >= 0 ? this.counting.place(leaf) : [];
    return { kind, line, buffer, tensor, ranges, words, operands };
  }
}
