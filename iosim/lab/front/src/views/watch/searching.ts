// A search for tiles that ends in tiles, whatever fits.
import { bestSteps, type Env, type Searchable, type Steps } from "../../engine";

// Tiles; if none fit, those of the least M for which some do.
export interface Found { tiles: Env; smallest?: number }

export function* fewest(program: Searchable, sizes: Env, M: number): Steps<Found> {
  const found = yield* bestSteps(program, sizes, M);
  if (!("smallest" in found)) return { tiles: found.tiles };
  const least = yield* bestSteps(program, sizes, found.smallest);
  if ("smallest" in least) throw new Error(`${program.name} fits in ${found.smallest} words, and no tiles do`);
  return { tiles: least.tiles, smallest: found.smallest };
}
