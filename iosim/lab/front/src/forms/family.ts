// Schedules by the options of their problem: which program is for which, and what it is bound to.
import type { Env, ProgramData } from "../engine";
import type { LabData } from "../types";

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

export interface Field { first: number; least: number; most: number }

export interface Family {
  fields: Record<string, Field>;
  says: Record<string, string>;
  masks: Record<string, string[]>; // a choice of what is seen → the options that it gives
  options: Record<string, Option>;
  schedules: Schedule[];
  packed: string;
}

// What travels packed, as programs do: JSON, compressed, in base64.
export async function unpack<T = ProgramData[]>(text: string): Promise<T> {
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  // A loop, since `Uint8Array.from` takes a tenth of a second for a million letters.
  for (let k = 0; k < letters.length; k++) bytes[k] = letters.charCodeAt(k);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return (await new Response(stream).json()) as T;
}

export function programOf(form: Form, packed: readonly ProgramData[], lab: LabData): ProgramData {
  const { program } = form;
  return (typeof program === "number" ? packed[program] : lab.programs[program]) as ProgramData;
}

// The form in which a schedule solves a problem with these options, or why it can't.
export function formOf(schedule: Schedule, options: ReadonlySet<string>): Form | string {
  const all = new Set([...options, ...schedule.needs]);
  const lacks = [...all].filter((x) => !schedule.options.includes(x) && !schedule.fields.includes(x));
  const form = nearest(schedule, [...all].filter((x) => !schedule.fields.includes(x)));
  if (form && !lacks.length) return form;
  const what = lacks.map((x) => (x === "left" || x === "right" ? "window" : x));
  return `${schedule.name} takes no ${[...new Set(what)].join(" and no ") || "such options"}`;
}

// The form with these options, and as few others as can be given without a change.
function nearest(schedule: Schedule, options: readonly string[]): Form | undefined {
  const more = Object.keys(schedule.forms).flatMap((key) => {
    const given = key.split(" ").filter(Boolean);
    const extra = given.filter((x) => !options.includes(x));
    const fits = options.every((x) => given.includes(x)) && extra.every((x) => schedule.fills.includes(x));
    return fits ? [{ key, extra: extra.length }] : [];
  });
  const least = more.sort((a, b) => a.extra - b.extra)[0];
  return least && schedule.forms[least.key];
}

// The options that a form of a schedule is traced for.
export const givenOf = (schedule: Schedule, form: Form): string[] =>
  Object.entries(schedule.forms).find(([, x]) => x === form)![0].split(" ").filter(Boolean);

// The sizes that a form's program is bound to.
export const sizesOf = (form: Form, typed: Env): Env =>
  Object.fromEntries(Object.entries(form.sizes).map(([x, told]) => [x, valueOf(told, typed)]));

const SIGNS: Record<string, (a: number, b: number) => number> = {
  "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b,
  "//": (a, b) => Math.floor(a / b), ">": (a, b) => Number(a > b),
};

function valueOf(told: Told, typed: Env): number {
  if (typeof told === "number") return told;
  if (typeof told === "string") return typed[told]!;
  const [sign, a, b] = told;
  return SIGNS[sign]!(valueOf(a, typed), valueOf(b, typed));
}
