/** Formulas that Python wrote down (iosim.lab.data.traced), evaluated as NumPy does, in float64. */

/** A number, a name, or [sign, place, …] of earlier entries; conditions are 1 or 0. */
export type Entry = number | string | [string, ...(number | number[])[]];

type Sign = (...values: number[]) => number;

const SIGNS: Record<string, Sign> = {
  "+": (a, b) => a! + b!, "-": (a, b) => a! - b!, "*": (a, b) => a! * b!, "/": (a, b) => a! / b!,
  "//": (a, b) => Math.floor(a! / b!), pow: (a, b) => a! ** b!,
  min: Math.min, max: Math.max, sqrt: Math.sqrt, log2: Math.log2, floor: Math.floor, ceil: Math.ceil, abs: Math.abs,
  rint: (x) => toEven(x!),
  "<": (a, b) => Number(a! < b!), "<=": (a, b) => Number(a! <= b!), ">": (a, b) => Number(a! > b!),
  ">=": (a, b) => Number(a! >= b!), "==": (a, b) => Number(a === b),
  "&": (a, b) => Number(a! !== 0 && b! !== 0), "|": (a, b) => Number(a! !== 0 || b! !== 0),
  where: (c, a, b) => (c! !== 0 ? a! : b!),
  inf: () => Infinity, "-inf": () => -Infinity,
};

/** The nearest whole number; of two the even one. */
function toEven(x: number): number {
  const low = Math.floor(x);
  if (x - low !== 0.5) return Math.round(x);
  return low % 2 === 0 ? low : low + 1;
}

/** Between points of a table on straight lines, and as at its ends beyond them. */
function interpolated(x: number, xs: number[], ys: number[]): number {
  if (x <= xs[0]!) return ys[0]!;
  const last = xs.length - 1;
  if (x >= xs[last]!) return ys[last]!;
  let [low, high] = [0, last];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle]! <= x) low = middle;
    else high = middle;
  }
  return ((ys[high]! - ys[low]!) / (xs[high]! - xs[low]!)) * (x - xs[low]!) + ys[low]!;
}

/** The value of every entry, where its names have these values. */
export function evaluate(entries: readonly Entry[], env: Record<string, number>): Float64Array {
  const found = new Float64Array(entries.length);
  entries.forEach((entry, k) => {
    if (typeof entry === "number") found[k] = entry;
    else if (typeof entry === "string") found[k] = env[entry] ?? NaN;
    else if (entry[0] === "interp") found[k] = interpolated(found[entry[1] as number]!, entry[2] as number[], entry[3] as number[]);
    else {
      const [sign, a, b, c] = entry as [string, number, number, number];
      found[k] = SIGNS[sign]!(...[a, b, c].slice(0, entry.length - 1).map((at) => found[at]!));
    }
  });
  return found;
}
