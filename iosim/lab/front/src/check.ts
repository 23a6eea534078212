// Whether a value is what `iosim lab` writes; if not, what is wrong in plain words.
import { unpack } from "./forms/family";
import type { LabData } from "./types";

export type Checked = { data: LabData } | { wrong: string };

const AGAIN = "Write it again with `iosim lab --save lab.html`, or `--save lab.json` for the data alone.";
const LARGEST_MIB = 64;

// `what` begins the message: "This page's data", or the name of a file.
export function check(given: unknown, what: string): Checked {
  const wrong = (text: string) => ({ wrong: `${what} ${text}. ${AGAIN}` });
  if (given instanceof Error) return wrong(`is not JSON (${given.message})`);
  if (!isRecord(given)) return wrong(`is JSON, but ${kind(given)}, not an object`);
  if (given.format !== "iosim-lab")
    return wrong(`is JSON, but not data of the lab: its "format" is ${say(given.format)}, not "iosim-lab"`);
  if (given.version !== 1) return wrong(`is of version ${say(given.version)}, and this page reads version 1`);
  for (const name of ["views", "programs", "exercises"])
    if (!isRecord(given[name])) return wrong(`has ${say(given[name])} where an object "${name}" belongs`);
  return { data: given as unknown as LabData };
}

export function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    return error;
  }
}

// The data in a page: JSON, or a string of JSON that has it packed.
export async function inside(text: string): Promise<unknown> {
  const value = parse(text);
  return typeof value === "string" ? unpack<unknown>(value).catch((error: Error) => error) : value;
}

// The data of a file: JSON, or a page of the lab that has it inside.
export async function read(file: File): Promise<Checked> {
  if (file.size > LARGEST_MIB * 2 ** 20)
    return { wrong: `${file.name} has ${Math.ceil(file.size / 2 ** 20)} MiB; the lab reads up to ${LARGEST_MIB} MiB.` };
  const text = await file.text();
  if (!/^\s*</.test(text)) return check(parse(text), file.name);
  const script = new DOMParser().parseFromString(text, "text/html").getElementById("iosim-lab-data");
  if (!script) return { wrong: `${file.name} is a page, but not a page of the lab. ${AGAIN}` };
  return check(await inside(script.textContent ?? ""), file.name);
}

function isRecord(x: unknown): x is Record<string, unknown> {
  return typeof x === "object" && x !== null && !Array.isArray(x);
}

function kind(x: unknown): string {
  return x === null ? "null" : Array.isArray(x) ? "a list" : `a ${typeof x}`;
}

function say(x: unknown): string {
  const text = JSON.stringify(x) ?? "nothing";
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
