// Numbers as they are read: what is measured exactly in tables, four digits elsewhere.
import { format } from "d3-format";
import { say } from "../../ui/numbers";

const FOUR = format(",.4~g");
const THREE = format(",.3~g");

export const digits = (x: number) => (x < 9999.5 ? FOUR(x) : say(Math.round(x)));
export const micro = (seconds: number) => digits(seconds * 1e6);
export const percent = (share: number) => `${THREE(100 * share)} %`;

const STEPS: [number, string][] = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];

// 67,108,864 B as 67.1 MB.
export function short(x: number, unit: string): string {
  const [size, prefix] = STEPS.find(([size]) => x >= size) ?? [1, ""];
  return `${THREE(x / size)} ${prefix}${unit}`;
}

export const CLASSES: Record<string, { sign: string; says: string }> = {
  contraction: { sign: "●", says: "contractions: products of matrices" },
  normalisation: { sign: "■", says: "normalizations and sums" },
  elementwise: { sign: "▲", says: "element-wise" },
};
