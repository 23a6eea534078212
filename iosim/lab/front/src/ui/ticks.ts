// Ticks of logarithmic axes.
import type { ScaleLogarithmic } from "d3-scale";

// Powers of a base that are inside a scale, thinned to about so many.
export function powers(base: number, scale: ScaleLogarithmic<number, number>, count: number): number[] {
  const [low, high] = scale.domain() as [number, number];
  const to = (v: number) => Math.log(v) / Math.log(base);
  const [first, last] = [Math.ceil(to(low) - 1e-9), Math.floor(to(high) + 1e-9)];
  const by = Math.max(1, Math.ceil((last - first + 1) / Math.max(2, count)));
  return Array.from({ length: Math.floor((last - first) / by) + 1 }, (_, k) => Math.round(base ** (first + k * by)));
}

const DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

// A power of ten as it is written: 10⁶.
export const tenTo = (v: number): string =>
  `10${[...String(Math.round(Math.log10(v)))].map((c) => DIGITS[Number(c)] ?? "⁻").join("")}`;
