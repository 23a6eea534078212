// The view's data as Python makes it: planes, FlashAttention's rule, and published blocks.
import type { Env } from "../../engine";

// A number, a name, or an operation with two of them; ("ceil", a, b) is ⌈a/b⌉.
export type Expression = number | string | [Operation, Expression, Expression];
type Operation = "ceil" | "times" | "min";

export interface PlaneData {
  schedule: string;
  title: string;
  x: string;
  y: string;
  held: string[]; // tiles that are on neither axis
  sizes: { name: string; value: number; says: string }[];
  rule: boolean; // whether the rule and the blocks speak of its tiles
  blocks: boolean;
}

export interface TilesData {
  M: number;
  largest: number; // of a size that tiles divide
  planes: PlaneData[];
  rule: { name: string; says: string; source: string; tiles: Record<string, Expression>; uncapped: Record<string, Expression> };
  blocks: { name: string; source: string; tiles: Env[] };
}

const OPERATIONS: Record<Operation, (a: number, b: number) => number> = {
  ceil: (a, b) => Math.ceil(a / b),
  times: (a, b) => a * b,
  min: (a, b) => Math.min(a, b),
};

export function evaluate(x: Expression, values: Env): number {
  if (typeof x === "number") return x;
  if (typeof x === "string") return values[x]!;
  const [name, a, b] = x;
  return OPERATIONS[name](evaluate(a, values), evaluate(b, values));
}

export const chosen = (rule: Record<string, Expression>, values: Env): Env =>
  Object.fromEntries(Object.entries(rule).map(([name, x]) => [name, evaluate(x, values)]));
