// Tiles of few words, at once: those that are shown while the search for the fewest goes on, and with
// a block mask of one's own, for which there is none.  From some tiles each one in turn is tried at
// other values, while another one takes what that leaves of M.
import { bind, peak, total, type BlockMask, type Env, type ProgramData } from "../../engine";

const ASKS = 600; // of the closed form, divided by the tiles that each one is over: some milliseconds

export function nearby(program: ProgramData, sizes: Env, from: Env, M: number, masks: Record<string, BlockMask>): Env {
  const { params } = program.tree;
  const enough = ASKS / params.length;
  let asks = 0;
  const held = (tiles: Env): number => {
    asks += 1;
    try {
      return Number(peak(bind(program, sizes, tiles, masks)));
    } catch {
      return Infinity; // a span that doesn't lie inside its axis
    }
  };
  const moved = (tiles: Env): bigint | null => (held(tiles) <= M ? total(bind(program, sizes, tiles, masks)) : null);
  const most = (name: string): number => {
    const p = params.find((x) => x.name === name)!;
    return sizes[p.axis] === undefined ? 1 : sizes[p.axis]! - (p.less ? sizes[p.less]! : 0);
  };
  // The largest value of one tile with which all of them fit.
  const filled = (tiles: Env, name: string, least: number): Env => {
    let [low, high] = [least, Math.max(least, most(name))];
    while (low < high) {
      const mid = Math.ceil((low + high) / 2);
      if (held({ ...tiles, [name]: mid }) <= M) low = mid;
      else high = mid - 1;
    }
    return { ...tiles, [name]: low };
  };
  let best = from;
  let words = moved(from);
  const tried = (tiles: Env): boolean => {
    const now = moved(tiles);
    if (now === null || (words !== null && now >= words)) return false;
    [best, words] = [tiles, now];
    return true;
  };
  for (let better = true; better && asks < enough; ) {
    better = false;
    for (const p of params) {
      for (const value of others(best[p.name]!, p.least, most(p.name))) {
        if (asks >= enough) return best;
        const one = { ...best, [p.name]: value };
        better = tried(one) || better;
        for (const q of params) if (q !== p && asks < enough) better = tried(filled(one, q.name, q.least)) || better;
      }
    }
  }
  return best;
}

function others(at: number, least: number, most: number): number[] {
  const found = [at + 1, at - 1, Math.round(at * 1.25), Math.round(at * 0.8), at * 2, Math.floor(at / 2), least, most];
  return [...new Set(found)].filter((x) => x !== at && x >= least && x <= most);
}
