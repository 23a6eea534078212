// Whether a value is what `iosim lab` writes; if not, what is wrong in plain words.
import type { LabData } from "./types";

export type Checked = { data: LabData } | { wrong: string };

const AGAIN = "Write the page again with `iosim lab -o lab.html`.";

export function check(given: unknown): Checked {
  if (given instanceof Error) return { wrong: `The data is not JSON (${given.message}). ${AGAIN}` };
  if (!isRecord(given)) return { wrong: `The data is ${kind(given)}, not an object. ${AGAIN}` };
  if (given.format !== "iosim-lab")
    return { wrong: `The data is JSON, but not of the lab: its "format" is ${say(given.format)}, not "iosim-lab". ${AGAIN}` };
  if (given.version !== 1)
    return { wrong: `The data is of version ${say(given.version)} and this page reads version 1. ${AGAIN}` };
  for (const name of ["views", "programs", "exercises"])
    if (!isRecord(given[name])) return { wrong: `The data has no object "${name}". ${AGAIN}` };
  return { data: given as unknown as LabData };
}

function isRecord(x: unknown): x is Record<string, unknown> {
  return typeof x === "object" && x !== null && !Array.isArray(x);
}

function kind(x: unknown): string {
  return x === null ? "null" : Array.isArray(x) ? "a list" : `a ${typeof x}`;
}

function say(x: unknown): string {
  const text = JSON.stringify(x) ?? "missing";
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
