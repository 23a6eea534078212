/** Exact fractions, so that ⌈N/B⌉ is never off by rounding. */
export interface Fraction { n: bigint; d: bigint } // reduced, d > 0

export function fraction(n: bigint | number, d: bigint = 1n): Fraction {
  const top = BigInt(n);
  const g = gcd(top < 0n ? -top : top, d < 0n ? -d : d) * (d < 0n ? -1n : 1n);
  return { n: top / g, d: d / g };
}

/** "35/2", "12" and "1.5". */
export function parseFraction(text: string): Fraction {
  const [top = "", bottom = "1"] = text.split("/");
  const [whole = "", part = ""] = top.split(".");
  return fraction(BigInt(whole + part), 10n ** BigInt(part.length) * BigInt(bottom));
}

export const plus = (a: Fraction, b: Fraction): Fraction => fraction(a.n * b.d + b.n * a.d, a.d * b.d);
export const minus = (a: Fraction, b: Fraction): Fraction => fraction(a.n * b.d - b.n * a.d, a.d * b.d);
export const times = (a: Fraction, b: Fraction): Fraction => fraction(a.n * b.n, a.d * b.d);
export const over = (a: Fraction, b: Fraction): Fraction => fraction(a.n * b.d, a.d * b.n);
export const same = (a: Fraction, b: Fraction): boolean => a.n === b.n && a.d === b.d;
export const less = (a: Fraction, b: Fraction): boolean => a.n * b.d < b.n * a.d;

export function power(a: Fraction, k: number): Fraction {
  return k < 0 ? fraction(a.d ** BigInt(-k), a.n ** BigInt(-k)) : { n: a.n ** BigInt(k), d: a.d ** BigInt(k) };
}

export function floor({ n, d }: Fraction): Fraction {
  const down = n / d;
  return fraction(n % d < 0n ? down - 1n : down);
}

export function ceil(a: Fraction): Fraction {
  const down = floor({ n: -a.n, d: a.d });
  return { n: -down.n, d: 1n };
}

const MOST_DIGITS = 30;

/** Whole ones exact, others of five digits; of very long ones the first digits and the power of ten. */
export function say({ n, d }: Fraction): string {
  const whole = n / d;
  const digits = whole.toString().replace("-", "");
  if (digits.length > MOST_DIGITS) return `${n < 0n ? "-" : ""}${digits[0]}.${digits.slice(1, 5)}·10^${digits.length - 1}`;
  if (d === 1n) return n.toLocaleString("en-US");
  return (Number((n * 10n ** 9n) / d) / 1e9).toLocaleString("en-US", { maximumSignificantDigits: 5 });
}

/** A number beside another one that it isn't: exact where rounded they would look the same. */
export function sayBeside(x: Fraction, other: Fraction): string {
  const [text, exact] = [say(x), `${x.n}/${x.d}`];
  if (same(x, other) || text !== say(other)) return text;
  return exact.length <= 2 * MOST_DIGITS ? exact : `a little ${less(x, other) ? "less" : "more"} than ${text}`;
}

function gcd(a: bigint, b: bigint): bigint {
  while (b) [a, b] = [b, a % b];
  return a;
}
