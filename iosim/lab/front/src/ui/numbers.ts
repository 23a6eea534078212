// Numbers as people type and read them.
import { format } from "d3-format";

const PLAIN = format(","); // twelve digits
const WHOLE = format(",d");
const UNITS: Record<string, number> = { "": 1, K: 1e3, M: 1e6, G: 1e9, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30 };

// With a comma every three digits, none lost: words are exact.
export function say(x: number | bigint): string {
  if (typeof x === "bigint") return x.toLocaleString("en-US");
  return Number.isInteger(x) ? WHOLE(x) : PLAIN(x);
}

// 24576, 24_576, 24,576 and 24Ki are numbers; undefined is none.
export function parseWhole(text: string): number | undefined {
  const found = /^\s*(\d[\d_,]*)\s*(Ki|Mi|Gi|K|M|G)?\s*$/.exec(text);
  if (!found) return undefined;
  const x = Number(found[1]!.replace(/[_,]/g, "")) * UNITS[found[2] ?? ""]!;
  return Number.isSafeInteger(x) ? x : undefined;
}

// What is wrong with a text that is to be a whole number from min to max.
export function wrongWhole(label: string, text: string, min: number, max: number): string | undefined {
  const x = parseWhole(text);
  const any = x ?? Number(text.replace(/[_,\s]/g, "").replace("−", "-") || NaN); // no whole one, or too large
  const is = `${label} is ${x === undefined ? text.trim() : say(x)}; it is at`;
  if (any < min) return `${is} least ${say(min)}`;
  if (any > max) return `${is} most ${say(max)}`;
  return x === undefined ? `${label} is a whole number, like ${say(Math.max(min, 4096))} or 4Ki` : undefined;
}
