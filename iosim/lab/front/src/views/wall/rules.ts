// Which operators may be one kernel: Python's own table, looked up.  Nothing here knows what an
// operator is; it knows which share a tensor and which come before which.
import { at, L2_DRAM, type Graph, type Layer, type Machine } from "./data";

export type Kernel = readonly number[]; // operators, rising
export type Verdict = { legal: true; parts: number[] } | { legal: false; why: string };

const key = (ops: Kernel) => ops.join(" ");
const rising = (ops: Iterable<number>) => [...new Set(ops)].sort((a, b) => a - b);
const within = (some: Kernel, all: Set<number>) => some.every((x) => all.has(x));

export class Rules {
  readonly needs: Set<number>[]; // by operator: those that it comes directly after
  readonly readers: number[][]; // by tensor
  readonly writer: (number | undefined)[]; // by tensor
  private readonly legal: Map<string, number>;
  private readonly refused: Map<string, string>;
  private readonly made: Map<number, number>; // a tensor that is given, and what it waits for

  constructor(readonly graph: Graph) {
    const { operators, tensors } = graph;
    this.readers = tensors.map(() => []);
    this.writer = tensors.map(() => undefined);
    operators.forEach((op, k) => {
      for (const t of new Set(op.reads)) this.readers[t]!.push(k);
      for (const t of op.writes) this.writer[t] = k;
    });
    this.made = new Map(graph.waits);
    this.needs = operators.map((op) => new Set(op.reads.flatMap((t) => this.writer[this.made.get(t) ?? t] ?? [])));
    this.legal = new Map(graph.legal.map((ops, k) => [key(ops), k]));
    this.refused = new Map(graph.refused.map(([ops, why]) => [key(ops), graph.reasons[why]!]));
  }

  names(ops: Kernel): string {
    return ops.map((k) => this.graph.operators[k]!.name).join(" + ");
  }

  // Whether operators are one kernel; its parts are places in the table of legal ones.
  judge(ops: Kernel): Verdict {
    const between = this.between(ops);
    if (between) return { legal: false, why: `${this.names(ops)}: ${between} is between them, and not among them` };
    const parts: number[] = [];
    for (const part of this.components(ops)) {
      const found = this.legal.get(key(part));
      if (found === undefined) return { legal: false, why: this.whyNot(part) };
      parts.push(found);
    }
    return { legal: true, parts };
  }

  private whyNot(part: Kernel): string {
    const exact = this.refused.get(key(part));
    if (exact !== undefined) return `${this.names(part)}: ${exact}`;
    const all = new Set(part);
    const stop = this.graph.stops.find(([ops]) => within(ops, all));
    return stop ? `${this.names(stop[0])}: ${this.graph.reasons[stop[1]]}` : `${this.names(part)} is not among the legal kernels`;
  }

  // An operator outside that is behind one of them and before another.
  private between(ops: Kernel): string | undefined {
    const { operators, tensors } = this.graph;
    const inside = new Set(ops);
    const made = new Set(ops.flatMap((k) => operators[k]!.writes));
    const behind = new Set<number>();
    for (const [k, op] of operators.entries()) {
      for (const t of op.reads) {
        const from = this.made.get(t);
        if (from !== undefined && (behind.has(from) || made.has(from))) behind.add(t);
      }
      const again = op.reads.find((t) => behind.has(t));
      if (inside.has(k)) {
        if (again === undefined) continue;
        const from = this.made.get(again);
        if (from !== undefined) return `what makes ${tensors[again]!.name} of ${tensors[from]!.name}`;
        return operators[this.writer[again]!]!.name;
      }
      if (again !== undefined || op.reads.some((t) => made.has(t))) op.writes.forEach((t) => behind.add(t));
    }
    return undefined;
  }

  // Parts that share no tensor.
  components(ops: Kernel): Kernel[] {
    const tensors = (k: number) => [...this.graph.operators[k]!.reads, ...this.graph.operators[k]!.writes];
    const found: Kernel[] = [];
    let left = [...ops];
    while (left.length) {
      const part = [left.shift()!];
      const known = new Set(tensors(part[0]!));
      for (;;) {
        const more = left.filter((k) => tensors(k).some((t) => known.has(t)));
        if (!more.length) break;
        part.push(...more);
        more.flatMap(tensors).forEach((t) => known.add(t));
        left = left.filter((k) => !more.includes(k));
      }
      found.push(rising(part));
    }
    return found;
  }

  // Kernels in an order in which they can run, and those that wait for each other.
  order(kernels: readonly Kernel[]): { order: Kernel[]; waiting: Kernel[] } {
    let todo = [...kernels].sort((a, b) => a[0]! - b[0]!);
    const done = new Set<number>();
    const order: Kernel[] = [];
    for (;;) {
      const later = todo.filter((ops) => {
        const ready = ops.every((k) => [...this.needs[k]!].every((n) => done.has(n) || ops.includes(n)));
        if (!ready) return true;
        ops.forEach((k) => done.add(k));
        order.push(ops);
        return false;
      });
      if (later.length === todo.length || !later.length) return { order, waiting: later };
      todo = later;
    }
  }

  // The partition with some kernels as one; or why there is none.
  fuse(kernels: readonly Kernel[], some: readonly Kernel[]): { kernels: Kernel[]; made: Kernel } | { why: string } {
    const made = rising(some.flat());
    const found = this.judge(made);
    if (!found.legal) return { why: found.why };
    const { order, waiting } = this.order([...kernels.filter((k) => !some.includes(k)), made]);
    if (waiting.length) return { why: `${waiting.map((k) => this.names(k)).join(" and ")} wait for each other` };
    return { kernels: order, made };
  }

  // The partition with a kernel cut in what is behind one of its operators, that included, and the rest.
  cut(kernels: readonly Kernel[], whole: Kernel, from: number): { kernels: Kernel[] } | { why: string } {
    const behind = new Set([from]);
    for (const k of whole) if ([...this.needs[k]!].some((n) => behind.has(n))) behind.add(k);
    const parts = [whole.filter((k) => !behind.has(k)), [...behind].sort((a, b) => a - b)];
    const wrong = parts.map((x) => this.judge(x)).find((x) => !x.legal);
    if (wrong && !wrong.legal) return { why: wrong.why };
    const { order, waiting } = this.order([...kernels.filter((k) => k !== whole), ...parts]);
    return waiting.length ? { why: "the parts would wait for each other" } : { kernels: order };
  }

  // Every operator by itself, in place of a kernel or of all of them.
  apart(kernels: readonly Kernel[], whole?: Kernel): Kernel[] {
    return this.order(kernels.flatMap((k) => (!whole || k === whole ? k.map((x) => [x]) : [k]))).order;
  }

  // Letters that say which kernel each operator is in, for a link; undefined if they say none.
  static readonly LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

  written(kernels: readonly Kernel[]): string {
    const found = this.graph.operators.map((_, k) => kernels.findIndex((ops) => ops.includes(k)));
    return found.map((k) => Rules.LETTERS[k]).join("");
  }

  read(text: string): Kernel[] | undefined {
    if (text.length !== this.graph.operators.length) return undefined;
    const found = new Map<string, number[]>();
    [...text].forEach((x, k) => found.set(x, [...(found.get(x) ?? []), k]));
    const kernels = [...found.values()];
    const { order, waiting } = this.order(kernels);
    return waiting.length || !kernels.every((x) => this.judge(x).legal) ? undefined : order;
  }
}

export interface Cost {
  products: number;
  others: number;
  flop: number;
  bytes: Record<string, number>; // at each boundary that the machine has a speed for
  missing: string[]; // boundaries whose fast side is too small for it
  words: number; // at L2↔DRAM
  intensity: number; // flop per byte at L2↔DRAM
  limit: string;
  bound: string;
  seconds: number;
}

// What a kernel costs on a machine: sums over its parts, and the largest of the machine's limits.
export function cost(layer: Layer, machine: Machine, ops: Kernel, parts: readonly number[]): Cost {
  const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);
  const products = sum(ops.map((k) => layer.products[k]!));
  const others = sum(ops.map((k) => layer.others[k]!));
  const bytes: Record<string, number> = {};
  const missing: string[] = [];
  for (const [boundary, place] of Object.entries(machine.memory)) {
    const each = parts.map((k) => at(layer.bytes[boundary]![k]!, place));
    if (each.some((x) => x === null)) missing.push(boundary);
    else bytes[boundary] = sum(each as number[]);
  }
  const amounts: Record<string, number> = { products, others, ...bytes };
  let most = { limit: "", bound: "", seconds: -1 };
  for (const limit of machine.limits) {
    const amount = limit.of === undefined ? 0 : amounts[limit.of];
    if (amount === undefined) continue;
    const seconds = limit.s ?? amount / limit.per_s!;
    if (seconds > most.seconds) most = { limit: limit.name, bound: limit.bound, seconds };
  }
  const words = sum(parts.map((k) => at(layer.words[k]!, machine.memory[L2_DRAM]!) ?? 0));
  const moved = bytes[L2_DRAM] ?? 0;
  return { products, others, flop: products + others, bytes, missing, words, intensity: moved ? (products + others) / moved : Infinity, ...most };
}
