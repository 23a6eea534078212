/** What makes tilings valid: affine expressions that are at least 0. */

import { clip } from "./ramps";
import type { Choice } from "./choices";
import type { Affine, Env } from "./types";
import { floorDiv } from "./whole";

interface Needed { first: number; terms: [place: number, by: number][] }

/** Constraints on positions of the parameters that are branched on. */
export class Constraints {
  private readonly needed: Needed[];

  /** `base` has sizes by name; `names` are parameters, in the order of positions. */
  constructor(needed: readonly Affine[], names: readonly string[], private readonly choices: readonly Choice[], base: Env) {
    this.needed = needed.map((value) => {
      const found: Needed = { first: value.const, terms: [] };
      for (const [name, c] of value.terms as [string, number][]) {
        const place = names.indexOf(name);
        if (place < 0) found.first += c * base[name]!;
        else found.terms.push([place, c]);
      }
      return found;
    });
  }

  /** Whether positions are valid. */
  hold(at: readonly number[]): boolean {
    return this.needed.every(({ first, terms }) => terms.reduce((sum, [k, c]) => sum + c * this.value(k, at[k]!), first) >= 0);
  }

  /** Cuts a box in place to what may be valid; false where nothing is. */
  narrow(low: number[], high: number[]): boolean {
    if (this.needed.length === 0) return true;
    for (let times = 0; times <= low.length; times++) {
      const before = [...low, ...high].join();
      if (!this.needed.every((x) => this.cut(x, low, high))) return false;
      if ([...low, ...high].join() === before) break;
    }
    return low.every((x, k) => x <= high[k]!);
  }

  private cut({ first, terms }: Needed, low: number[], high: number[]): boolean {
    const top = terms.map(([k, c]) => c * this.value(k, (c > 0 ? high : low)[k]!));
    const most = top.reduce((a, b) => a + b, first);
    terms.forEach(([k, c], j) => {
      const choice = this.choices[k]!;
      const rest = most - top[j]!;
      if (c > 0) low[k] = Math.max(low[k]!, choice.floor(clip(-floorDiv(rest, c) - 1, -1, choice.extent)) + 1);
      else high[k] = Math.min(high[k]!, choice.floor(clip(floorDiv(rest, -c), -1, choice.extent)));
    });
    return most >= 0;
  }

  private value(k: number, position: number): number {
    const choice = this.choices[k]!;
    return choice.value(clip(position, 0, choice.count - 1));
  }
}
