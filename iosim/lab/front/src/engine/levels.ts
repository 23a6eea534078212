/** What iterations hold at least, over boxes; as in iosim.core.counting.arrays. */

import { spanKey, spanNames, type Atoms, type Iteration } from "./atoms";
import { Lengths, type Shortest } from "./integral";
import { leastOf, tilesOf, type Line, type Values } from "./space";
import type { Affine, Atom, Level, LoopHead, Part, Span } from "./types";
import { ceilDiv } from "./whole";

const FEW_TILES = 16;

type Condition = (low: Values, high: Values, here: Iteration) => boolean;

/**
 * The iterations of a level that is over one loop: the first tile; one that is not the last, in
 * which any position is but the last few, as many as the largest step; and the last two, where
 * there are few.
 */
export class Iterations {
  private readonly start: Line;
  private readonly length: Line;
  private readonly startNames: number[];
  private readonly spanNames: number[];
  private readonly lengths: [string, Lengths][];
  private readonly runs: Condition[];
  private readonly step: number | null;

  private constructor(private readonly loop: LoopHead, level: Level, used: Atom[], atoms: Atoms<unknown>) {
    const { names } = atoms;
    const { span } = loop;
    this.start = names.line(span.start);
    this.length = names.line(difference(span.stop, span.start));
    this.startNames = span.start.terms.map(([name]) => names.size(name as string));
    this.spanNames = spanNames(span).map((x) => names.size(x));
    const spans = new Map([...used, ...level.runs].flatMap(inner).map((x): [string, Span] => [spanKey(x.span), x.span]));
    this.lengths = [...spans].map(([key, x]) => [key, new Lengths(names, x, loop.tile)]);
    this.runs = level.runs.map((run): Condition => {
      const length = atoms.length(run);
      return run.type === "Part"
        ? (low, high, here) => length.inside(low, high, here) > 0
        : (low, high) => length.least(low, high) > 0;
    });
    this.step = loop.step === null ? null : names.size(loop.step);
  }

  /** null where nothing is known of them; `used` are the atoms of the level's words. */
  static of(level: Level, used: Atom[], atoms: Atoms<unknown>): Iterations | null {
    const [loop] = level.over;
    return loop && level.over.length === 1 && tilesOf(loop.span).length === 0 ? new Iterations(loop, level, used, atoms) : null;
  }

  over(low: Values, high: Values): Iteration[] {
    if (this.startNames.some((x) => low[x] !== high[x])) return [];
    const first = leastOf(this.start, low, low);
    const n = leastOf(this.length, low, high);
    if (n <= 0) return [];
    const [least, most] = this.step === null ? [1, 1] : [low[this.step]!, high[this.step]!];
    const extent = Math.min(n, least);
    const lengths = this.lengths.map(([key, x]): [string, Shortest] => [key, x.over(low, high)]);
    const place = lengths.reduce((at, [, x]) => Math.min(at, x.longest(first, first + n - most)), first + n - most);
    // What the tile covers at least, and its first and last possible stop.
    const kinds: [number, number, number][] = [[extent, first + extent, first + extent]];
    if (most <= n) kinds.push([extent, Math.max(place + 1, first + extent), place + extent]);
    const before = ceilDiv(n, Math.max(least, 1)) - 1;
    const few = before <= FEW_TILES || least === most;
    if (few && before === ceilDiv(n, Math.max(most, 1)) - 1 && this.spanNames.every((x) => low[x] === high[x])) {
      // Where all steps make equally many tiles, it is known where the last two are.
      kinds.push([Math.max(n - before * most, 1), first + n, first + n]);
      if (before > 0) kinds.push([extent, first + before * least, first + before * most]);
    }
    return kinds.map(([covered, stop, past]): Iteration => ({
      tile: this.loop.tile, extent: covered,
      lengths: new Map(lengths.map(([key, x]) => [key, x.least(covered, stop, past)])),
    })).filter((here) => this.runs.every((run) => run(low, high, here)));
  }
}

/** The length that an atom follows. */
function inner(atom: Atom | Affine): Part[] {
  let found: Atom | Affine = atom;
  while (typeof found !== "string" && found.type === "Clip") found = found.length;
  return typeof found !== "string" && found.type === "Part" ? [found] : [];
}

function difference(a: Affine, b: Affine): Affine {
  const terms = new Map(a.terms.map(([name, c]) => [name as string, c]));
  for (const [name, c] of b.terms) terms.set(name as string, (terms.get(name as string) ?? 0) - c);
  return { type: "Affine", const: a.const - b.const, terms: [...terms] };
}
