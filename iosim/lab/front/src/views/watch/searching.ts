// Searches for tiles, which are run for some milliseconds at a time.
import { bestSteps, type Env, type Searchable, type Steps } from "../../engine";

// Tiles; if none fit, those of the least M for which some do.
export interface Found { tiles: Env; smallest?: number }

const SLICE_MS = 10; // between two slices events are answered and frames drawn

export function* fewest(program: Searchable, sizes: Env, M: number): Steps<Found> {
  const found = yield* bestSteps(program, sizes, M);
  if (!("smallest" in found)) return { tiles: found.tiles };
  const least = yield* bestSteps(program, sizes, found.smallest);
  if ("smallest" in least) throw new Error(`${program.name} fits in ${found.smallest} words, and no tiles do`);
  return { tiles: least.tiles, smallest: found.smallest };
}

// What a search finds in some time; undefined where it has not ended.
export function within<R>(search: Steps<R>, ms: number): R | undefined {
  const until = performance.now() + ms;
  do {
    const { done, value } = search.next();
    if (done) return value;
  } while (performance.now() < until);
  return undefined;
}

// What a search finds in the end; undefined where it is left off before.
export async function ended<R>(search: Steps<R>, goesOn: () => boolean): Promise<R | undefined> {
  for (;;) {
    await new Promise((done) => setTimeout(done));
    if (!goesOn()) return undefined;
    const found = within(search, SLICE_MS);
    if (found !== undefined) return found;
  }
}
