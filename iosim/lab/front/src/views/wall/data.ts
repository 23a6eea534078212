// What Python sends, `iosim/lab/data/wall.py`, and how its tables are looked up.

export interface Limit {
  name: string;
  bound: "compute" | "memory" | "link" | "overhead";
  of?: string; // "products", "others", or a boundary whose bytes it moves
  per_s?: number;
  s?: number; // of a limit that takes as long for every kernel
}

export interface Machine {
  name: string;
  title: string;
  year: number;
  core: string;
  cache: string;
  dtype: string;
  ridge: number; // FLOP per byte at L2↔DRAM
  memory: Record<string, number>; // by boundary: its place in the data's memories
  limits: Limit[];
  numbers: { name: string; said: string; source: string }[];
  unknown: string[];
}

export interface Operator {
  name: string;
  class: string;
  kind: string;
  reads: number[];
  writes: number[];
}

export interface Graph {
  model: string;
  phase: string;
  operators: Operator[];
  tensors: { name: string; role: string; axes: string }[];
  kept: number[];
  waits: [given: number, made: number][];
  legal: number[][];
  refused: [operators: number[], reason: number][];
  stops: [operators: number[], reason: number][];
  reasons: string[];
  fusions: Record<string, number[][]>;
}

// By kernel: a value for each memory, rising; the last one is that of all larger memories, too.
type ByMemory = (number | null)[];

export interface Layer {
  graph: number;
  batch: number;
  products: number[];
  others: number[];
  sizes: number[]; // bytes of each tensor
  bytes: Record<string, ByMemory[]>;
  words: ByMemory[];
  best: number[][][];
}

export interface WallData {
  boundaries: string[];
  memories: Record<string, number[]>;
  machines: Machine[];
  models: { name: string; title: string; N: number; layers: number; source: string }[];
  fusions: Record<string, string>; // what each of them is
  graphs: Graph[];
  layers: Layer[];
}

export const L2_DRAM = "L2↔DRAM";

export function at<T>(values: readonly T[], place: number): T {
  return values[Math.min(place, values.length - 1)]!;
}
