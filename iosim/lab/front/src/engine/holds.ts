/** A plan's bounds by its holds: words at the ends of one, and how much fits beside the rest; as in iosim.core.tiling.stationary_bounds. */

import type { EndTerms, HoldTerms, LeaningTerms, Reader, Room } from "./bounds";
import type { Values } from "./space";

/** More than what rounding adds, and more words than any bound. */
const ROUNDING = 1e-12;
const FAR = 2 ** 62;

/** The largest value of a hold with which a box may fit, by the levels that are linear in it; −1 for none. */
export function holdRoom<T>(reader: Reader<T>, terms: readonly HoldTerms<T>[], low: Values, high: Values, cap: T, extent: number): number {
  const { whole } = reader;
  let room = extent;
  const take = (flat: T, tilt: T): void => {
    if (whole.less(whole.of(0), tilt)) room = Math.min(room, whole.over(whole.minus(cap, flat), tilt));
  };
  for (const { flat, tilt, level, runs } of terms) {
    if (level.over !== null) {
      for (const here of level.over.iterations?.over(low, high) ?? []) {
        take(reader.inside(flat, low, high, here), reader.inside(tilt, low, high, here));
      }
    } else if (runs.every((run) => run.least(low, high) > 0)) take(reader.least(flat, low, high), reader.least(tilt, low, high));
  }
  return Math.max(room, -1);
}

/**
 * Words that a box moves at least, by the ends of a hold: what words save and what room they leave,
 * at once.  `room` is what iterations hold, and `places` are those of the hold and of its axis.
 */
export function endWords<T>(
  reader: Reader<T>, ends: EndTerms<T>, solved: string | null, low: Values, high: Values,
  rooms: readonly Room<T>[], cap: T, [hold, axis]: [number, number],
): T {
  const { whole } = reader;
  const at = [low[hold]!, high[hold]!].map((W): [T, T] => [whole.of(W), whole.of(low[axis]! - W)]);
  const along = (parts: LeaningTerms<T>): T[] => {
    const [flat, byHold, byRest] = parts.map((x) => reader.least(x, low, high)) as [T, T, T];
    return at.map(([W, rest]) => whole.plus(flat, whole.plus(whole.times(byHold, W), whole.times(byRest, rest))));
  };
  const least = (a: T, b: T): T => (whole.less(b, a) ? b : a);
  let words = along(ends.words).reduce(least);
  const shared = solved === null ? undefined : ends.shared.get(solved);
  if (shared === undefined) return words;
  const [rest, flow] = shared.map((x) => along(x).map(whole.real)) as [number[], number[]];
  for (const room of rooms) {
    // Where a step of less than the length is the most that may fit.
    const left = at.map(([W]) => whole.minus(cap, whole.plus(room.flat, whole.times(room.tilt, W))));
    const { each } = room;
    if (each === null || !whole.less(whole.of(0), each) || !whole.less(left[0]!, whole.times(each, whole.of(room.whole)))) continue;
    const here = left.map((x, k) => (whole.less(whole.of(0), x) ? rest[k]! + (flow[k]! * whole.real(each)) / whole.real(x) : FAR));
    const bound = whole.of(Math.ceil(Math.min(Math.min(...here) * (1 - ROUNDING), FAR)));
    if (whole.less(words, bound)) words = bound;
  }
  return words;
}
