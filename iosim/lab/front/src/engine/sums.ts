/**
 * Sums over the tiles of a loop in time that does not grow with their number, as in
 * iosim.core.counting.sums: on a piece where lengths are affine a product is a polynomial; where one is
 * rounded, Euclid's algorithm adds up; where several are, the residues of their common period do.
 */

import { ProgramError } from "./errors";
import { floorDiv, floorDivBig } from "./whole";

const LONGEST_PERIOD = 2n ** 14n;

type Polynomial = bigint[]; // coefficients, constant first

/** start + slope·t: a position, of which there are few enough for numbers. */
export interface Ramp { start: number; slope: number }

/** A length along t: of start … stop, cut to low … high. */
export interface Stretch { start: Ramp; stop: Ramp; low: number; high: number }

const min = (a: bigint, b: bigint): bigint => (a < b ? a : b);

/** The first t from which on the sign is another one, or null for a constant. */
export function turns({ start, slope }: Ramp): number | null {
  if (slope > 0) return -floorDiv(start, slope);
  return slope === 0 ? null : floorDiv(start, -slope) + 1;
}

export function lengthAt({ start, stop, low, high }: Stretch, t: number): number {
  const at = (ramp: Ramp): number => Math.min(Math.max(ramp.start + ramp.slope * t, low), high);
  return Math.max(at(stop) - at(start), 0);
}

/** Where a length may stop being affine. */
export function cutsOf({ start, stop, low, high }: Stretch): number[] {
  const less = (ramp: Ramp, by: number): Ramp => ({ start: ramp.start - by, slope: ramp.slope });
  const apart = { start: stop.start - start.start, slope: stop.slope - start.slope };
  const ramps = [less(start, low), less(start, high), less(stop, low), less(stop, high), apart];
  return ramps.map(turns).filter((t) => t !== null);
}

/** The ranges of 0 … n − 1 between cuts, as [first, past]. */
export function pieces(n: number, cuts: readonly number[]): [number, number][] {
  const ends = [0, ...cuts.filter((t) => t > 0 && t < n), n].sort((a, b) => a - b);
  return ends.slice(1).map((past, k): [number, number] => [ends[k]!, past]).filter(([a, b]) => a < b);
}

/** Σ over t < n of a product of lengths, each divided by a step and rounded up where one is given. */
export function overTiles(n: number, factors: [Stretch, number | null][]): bigint {
  let total = 0n;
  for (const [first, past] of pieces(n, factors.flatMap(([x]) => cutsOf(x)))) {
    const lines: Line[] = [];
    const rounded: [Line, bigint][] = [];
    for (const [stretch, step] of factors) {
      const here = lengthAt(stretch, first);
      const slope = past - first > 1 ? lengthAt(stretch, first + 1) - here : 0;
      const line = { start: BigInt(here), slope: BigInt(slope) };
      if (step === null) lines.push(line);
      else rounded.push([line, BigInt(step)]);
    }
    total += products(BigInt(past - first), lines, rounded);
  }
  return total;
}

interface Line { start: bigint; slope: bigint }
interface Floor { a: bigint; b: bigint; m: bigint; rest: Polynomial }

/** Σ over t < n of Π lines(t) · Π ⌈ramp(t)/step⌉ */
function products(n: bigint, lines: Line[], rounded: [Line, bigint][]): bigint {
  let plain: Polynomial = [1n];
  for (const ramp of lines) plain = times(plain, [ramp.start, ramp.slope]);
  const floors: Floor[] = [];
  for (const [ramp, m] of rounded) {
    // ⌈(at + b)/m⌉ = ⌊(at + b + m − 1)/m⌋, whole parts taken out and fractions reduced.
    const high = ramp.start + m - 1n;
    const rest = [floorDivBig(high, m), floorDivBig(ramp.slope, m)];
    const [a, b] = [ramp.slope - rest[1]! * m, high - rest[0]! * m];
    if (a === 0n) {
      plain = times(plain, rest);
      continue;
    }
    const g = gcd(a, m);
    floors.push({ a: a / g, b: b / g, m: m / g, rest });
  }
  const kinds = new Set(floors.map(({ a, b, m }) => `${a} ${b} ${m}`));
  if (kinds.size > 1) return byResidues(n, plain, floors);
  // A polynomial in t for every power of the one rounding y.
  let byPower: Polynomial[] = [plain];
  for (const { rest } of floors) {
    const grown: Polynomial[] = Array.from({ length: byPower.length + 1 }, () => []);
    byPower.forEach((poly, q) => {
      grown[q] = plus(grown[q]!, times(poly, rest));
      grown[q + 1] = plus(grown[q + 1]!, poly);
    });
    byPower = grown;
  }
  let total = polynomial(n, byPower[0]!);
  const one = floors[0];
  if (floors.length === 1 && byPower[1]!.length === 1) return total + byPower[1]![0]! * floorSum(n, one!.a, one!.b, one!.m);
  if (one !== undefined) {
    const degree = Math.max(...byPower.map((x) => x.length)) - 1;
    const sums = floorSums(n, one.a, one.b, one.m, degree, byPower.length - 1);
    byPower.slice(1).forEach((poly, q) => poly.forEach((c, p) => { total += c * sums[p]![q + 1]!; }));
  }
  return total;
}

function byResidues(n: bigint, plain: Polynomial, floors: Floor[]): bigint {
  const period = floors.reduce((found, { m }) => (found / gcd(found, m)) * m, 1n);
  if (min(period, n) > LONGEST_PERIOD) {
    throw new ProgramError(
      `a sum of different roundings repeats after ${period} tiles, and at most ${LONGEST_PERIOD} are summed: `
      + "choose tile sizes with common factors",
    );
  }
  let total = 0n;
  for (let r = 0n; r < min(period, n); r++) {
    // t = r + period·k, along which every rounding is affine.
    let poly = along(plain, r, period);
    for (const { a, b, m, rest } of floors) {
      const whole = along(rest, r, period);
      poly = times(poly, plus(whole, [floorDivBig(a * r + b, m), floorDivBig(a * period, m)]));
    }
    total += polynomial(-floorDivBig(-(n - r), period), poly);
  }
  return total;
}

/** Σ over t < n of a polynomial in t, by its forward differences at 0. */
function polynomial(n: bigint, coefficients: Polynomial): bigint {
  let values = coefficients.map((_, t) => coefficients.reduceRight((value, c) => value * BigInt(t) + c, 0n));
  let total = 0n;
  let choose = 1n; // n choose k + 1
  for (let k = 0n; values.length; k++) {
    choose = (choose * (n - k)) / (k + 1n);
    total += values[0]! * choose;
    values = values.slice(1).map((b, j) => b - values[j]!);
  }
  return total;
}

/** Σ over t < n of ⌊(at + b)/m⌋, with a, b ≥ 0 and m > 0. */
function floorSum(n: bigint, a: bigint, b: bigint, m: bigint): bigint {
  let total = 0n;
  while (n > 0n) {
    total += ((n * (n - 1n)) / 2n) * (a / m) + n * (b / m);
    [a, b] = [a % m, b % m];
    const top = a * n + b;
    // As many steps up as there are whole m's, seen from the other side.
    [n, b, m, a] = [top / m, top % m, a, m];
  }
  return total;
}

/** Σ over t < n of tᵖ⌊(at + b)/m⌋^q, for all p ≤ P and q ≤ Q, with a, b ≥ 0 and m > 0. */
export function floorSums(n: bigint, a: bigint, b: bigint, m: bigint, P: number, Q: number): bigint[][] {
  const zero = table(P, Q, () => 0n);
  if (n === 0n) return zero;
  const up: Steps = { x: 0n, y: 1n, sums: zero };
  const right: Steps = { x: 1n, y: 0n, sums: table(P, Q, (_, q) => (q === 0 ? 1n : 0n)) };
  const word = then(power(up, b / m), path(a, m, b % m, n - 1n, up, right));
  const first = b / m; // t = 0 comes before the first step to the right
  return table(P, Q, (p, q) => word.sums[p]![q]! + (p === 0 ? first ** BigInt(q) : 0n));
}

/** A word of steps: how far it goes right and up, and Σ xᵖy^q after its steps right. */
interface Steps { x: bigint; y: bigint; sums: bigint[][] }

function table(P: number, Q: number, value: (p: number, q: number) => bigint): bigint[][] {
  return Array.from({ length: P + 1 }, (_, p) => Array.from({ length: Q + 1 }, (_, q) => value(p, q)));
}

/** One word, and then another. */
function then(one: Steps, other: Steps): Steps {
  if (other.x === 0n && other.y === 0n) return one;
  if (one.x === 0n && one.y === 0n) return other;
  const [P, Q] = [one.sums.length - 1, one.sums[0]!.length - 1];
  const sums = table(P, Q, (p, q) => {
    let total = one.sums[p]![q]!;
    for (let i = 0; i <= p; i++) {
      for (let j = 0; j <= q; j++) {
        total += choose(p, i) * one.x ** BigInt(p - i) * choose(q, j) * one.y ** BigInt(q - j) * other.sums[i]![j]!;
      }
    }
    return total;
  });
  return { x: one.x + other.x, y: one.y + other.y, sums };
}

/** The word that goes right n times, with ⌊(at + b)/m⌋ steps up before the t-th; b < m. */
function path(a: bigint, m: bigint, b: bigint, n: bigint, up: Steps, right: Steps): Steps {
  if (n === 0n) return power(up, 0n);
  if (a >= m) {
    right = then(power(up, a / m), right);
    a %= m;
  }
  const top = (a * n + b) / m;
  if (top === 0n) return power(right, n);
  const after = n - (m * top - b - 1n) / a;
  const inner = path(m, a, (m - b - 1n) % a, top - 1n, right, up);
  const head = then(power(right, (m - b - 1n) / a), up);
  return then(then(head, inner), power(right, after));
}

/** A word n times over. */
function power(word: Steps, n: bigint): Steps {
  let result: Steps = { x: 0n, y: 0n, sums: word.sums.map((row) => row.map(() => 0n)) };
  for (; n > 0n; n >>= 1n) {
    if (n & 1n) result = then(result, word);
    word = then(word, word);
  }
  return result;
}

function choose(n: number, k: number): bigint {
  let found = 1n;
  for (let j = 0; j < k; j++) found = (found * BigInt(n - j)) / BigInt(j + 1);
  return found;
}

function gcd(a: bigint, b: bigint): bigint {
  while (b) [a, b] = [b, a % b];
  return a;
}

function plus(a: Polynomial, b: Polynomial): Polynomial {
  return Array.from({ length: Math.max(a.length, b.length) }, (_, k) => (a[k] ?? 0n) + (b[k] ?? 0n));
}

function times(a: Polynomial, b: Polynomial): Polynomial {
  const product: Polynomial = Array.from({ length: a.length + b.length - 1 }, () => 0n);
  a.forEach((x, i) => b.forEach((y, j) => { product[i + j]! += x * y; }));
  return product;
}

/** The polynomial in k where t = start + step·k. */
function along(coefficients: Polynomial, start: bigint, step: bigint): Polynomial {
  return coefficients.reduceRight<Polynomial>((result, c) => plus(times(result, [start, step]), [c]), [0n]);
}
