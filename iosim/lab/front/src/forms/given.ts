// What is typed of a problem: its sizes, and what is seen of the scores.
import type { Env } from "../engine";
import type { Params } from "../types";
import { parseWhole, say } from "../ui/numbers";
import type { Family, Form, Schedule } from "./family";

export interface Given {
  typed: Env; // every number, whether it is in use or not
  options: ReadonlySet<string>; // those that are given
  words: Readonly<Record<string, string>>; // of the options that are a choice
  mask: string;
}

// A link's whole number; what is none is said.
export function wholeOf(params: Params, name: string, first: number, least: number, most: number, wrong: string[]): number {
  const text = params[name];
  if (text === undefined) return first;
  const x = parseWhole(text);
  if (x !== undefined && x >= least && x <= most) return x;
  wrong.push(`the link's ${name} is “${text}”, not a whole number in ${say(least)} to ${say(most)}`);
  return first;
}

// Reads a link; `start` are sizes to begin with, and `wrong` gets what was not understood.
export function readGiven(family: Family, start: Env, params: Params, wrong: string[]): Given {
  const typed: Env = {};
  for (const [name, { first, least, most }] of Object.entries(family.fields)) {
    const fallback = typed[family.options[name]?.follows ?? ""];
    typed[name] = wholeOf(params, name, start[name] ?? (name in params ? first : (fallback ?? first)), least, most, wrong);
  }
  const mask = params.mask ?? "";
  if (mask && !(mask in family.masks)) wrong.push(`the link's mask is “${mask}”; there are ${Object.keys(family.masks).join(", ")}`);
  const options = new Set(family.masks[mask] ?? []);
  const words: Record<string, string> = {};
  for (const [name, { kind, choices }] of Object.entries(family.options)) {
    if (kind === "size" && name in params) options.add(name);
    if (kind === "count" && typed[name]! > 0 && belongs(family, name, mask)) options.add(name);
    const text = params[name];
    if (kind !== "choice" || text === undefined || text === choices[0]) continue;
    if (choices.includes(text)) {
      words[name] = text;
      if (belongs(family, name, mask)) options.add(name);
    } else wrong.push(`the link's ${name} is “${text}”; there are ${choices.join(", ")}`);
  }
  return { typed, options, words, mask: mask in family.masks ? mask : Object.keys(family.masks)[0] ?? "" };
}

// Whether an option says something beside a mask: whether some program is traced for both.
export function belongs(family: Family, option: string, mask: string): boolean {
  const [all, here] = [new Set(Object.values(family.masks).flat()), family.masks[mask] ?? []];
  return family.schedules.some((x) => Object.keys(x.forms).some((key) => {
    const given = key.split(" ");
    return given.includes(option) && [...all].every((m) => given.includes(m) === here.includes(m));
  }));
}

// What is wrong with sizes of which one divides another.
export function undivided(family: Family, schedule: Schedule, form: Form, typed: Env): { field: string; message: string } | undefined {
  for (const [name, { divides: whole }] of Object.entries(family.options)) {
    const used = whole && (name in form.sizes || schedule.fields.includes(name));
    if (used && typed[whole]! % typed[name]!)
      return { field: name, message: `${name} = ${say(typed[name]!)} doesn't divide ${whole} = ${say(typed[whole]!)}: give a divisor` };
  }
  return undefined;
}
