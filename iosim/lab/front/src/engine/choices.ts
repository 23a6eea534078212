/** What a parameter may be in a search: ascending candidates, addressed by their positions. */

import { floorDiv } from "./whole";

export interface Choice {
  extent: number;
  count: number;
  value(position: number): number;
  /** The last position whose value is at most a limit of −1 … extent; −1 for none. */
  floor(limit: number): number;
}

export function everyValue(extent: number, first: number): Choice {
  return {
    extent, count: extent + 1 - first,
    value: (position) => first + position,
    floor: (limit) => Math.max(limit - first, -1),
  };
}

/** The least B for every value of ⌈n/B⌉ = ⌊(n−1)/B⌋ + 1: 1 … ⌊√(n−1)⌋, then those of fewer trips. */
export function distinctTrips(extent: number): Choice {
  const last = extent - 1;
  const root = Math.floor(Math.sqrt(last));
  const count = root + floorDiv(last, root + 1) + 1;
  return {
    extent, count,
    value: (position) => (position < root ? position + 1 : floorDiv(last, Math.max(count - position, 1)) + 1),
    floor: (limit) => (limit <= root ? Math.max(limit, 0) - 1 : count - 1 - floorDiv(last, limit)),
  };
}
