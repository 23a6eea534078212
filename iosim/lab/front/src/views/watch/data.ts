// What the view is given: schedules by form, and the numbers that people type.
import type { BlockMask, Env, ProgramData } from "../../engine";
import type { LabData } from "../../types";

// A name of what people type, a number, or [sign, a, b].
export type Told = string | number | [string, Told, Told];

export interface Form {
  program: string | number; // of the page's programs, or of the packed ones
  sizes: Record<string, Told>;
  totals: Record<string, string>; // the closed form of every counter, as text
}

export interface Schedule {
  name: string;
  title: string;
  fields: string[];
  options: string[];
  needs: string[];
  fills: string[]; // that may be given, too, and change no word where each is what it follows, or 0
  forms: Record<string, Form>; // by options, sorted and joined
}

// What a problem declares of an option.
export interface Option {
  kind: "size" | "count" | "choice";
  follows: string; // the size that it is where it is not given
  divides: string;
  choices: string[];
}

export interface WatchData {
  fields: Record<string, { first: number; least: number; most: number }>;
  says: Record<string, string>;
  masks: Record<string, string[]>; // a choice of what is seen → the options that it gives
  options: Record<string, Option>;
  blocks: Record<string, string[]>; // patterns of block masks: a 1 for each block that is marked
  schedules: Schedule[];
  packed: string;
  examples: { name: string; params: Record<string, string> }[];
  start: {
    algorithm: string;
    sizes: Env;
    tiles: Env | null;
    blocks?: Record<string, BlockMask>; // block masks, for one's own instance
  };
}

// The programs that travel packed: JSON, compressed, in base64.
export async function unpack(text: string): Promise<ProgramData[]> {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return (await new Response(stream).json()) as ProgramData[];
}

export function programOf(form: Form, packed: readonly ProgramData[], lab: LabData): ProgramData {
  const { program } = form;
  return (typeof program === "number" ? packed[program] : lab.programs[program]) as ProgramData;
}

const SIGNS: Record<string, (a: number, b: number) => number> = {
  "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b,
  "//": (a, b) => Math.floor(a / b), ">": (a, b) => Number(a > b),
};

export function valueOf(told: Told, typed: Env): number {
  if (typeof told === "number") return told;
  if (typeof told === "string") return typed[told]!;
  const [sign, a, b] = told;
  return SIGNS[sign]!(valueOf(a, typed), valueOf(b, typed));
}
