/** Whole numbers: divisions that are exact, and one arithmetic for numbers and for bigints. */

/** ⌊a/b⌋ of safe integers, b > 0: a remainder is exact, and so is the quotient of what it leaves. */
export function floorDiv(a: number, b: number): number {
  const rest = a % b;
  return (a - (rest < 0 ? rest + b : rest)) / b;
}

/** ⌈a/b⌉ of safe integers, b > 0. */
export function ceilDiv(a: number, b: number): number { return -floorDiv(-a, b); }

export function floorDivBig(a: bigint, b: bigint): bigint {
  const quotient = a / b;
  return a % b < 0n ? quotient - 1n : quotient;
}

/** What closed forms need of a kind of whole numbers. */
export interface Whole<T> {
  of(x: number): T;
  from(x: bigint): T;
  /** In floating point. */
  real(x: T): number;
  plus(a: T, b: T): T;
  minus(a: T, b: T): T;
  times(a: T, b: T): T;
  less(a: T, b: T): boolean;
  /** ⌊a/b⌋ for b > 0, as a number: exact up to 2^53, and larger than that where it is larger. */
  over(a: T, b: T): number;
}

export const NUMBERS: Whole<number> = {
  of: (x) => x, from: Number, real: (x) => x, plus: (a, b) => a + b, minus: (a, b) => a - b, times: (a, b) => a * b, less: (a, b) => a < b, over: floorDiv,
};

export const BIGINTS: Whole<bigint> = {
  of: BigInt, from: (x) => x, real: Number, plus: (a, b) => a + b, minus: (a, b) => a - b, times: (a, b) => a * b, less: (a, b) => a < b,
  over: (a, b) => Number(floorDivBig(a, b)),
};
