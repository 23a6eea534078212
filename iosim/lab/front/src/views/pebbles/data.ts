// What iosim.lab.data.pebbles gives the view.
import { type Graph, graphOf, type Move, moveOf, type Rules } from "./rules";

export interface Theorem {
  s: number; // transfers of a segment
  parts: number; // P(M + s)
  words: number; // s (P(M + s) − 1): no game moves fewer
}

export interface Optimum {
  M: number;
  words: number;
  loads: number;
  stores: number;
  moves: readonly string[];
  theorem: readonly Theorem[] | null; // none where sums are taken term by term
}

export interface Board {
  graph: string;
  game: string;
  name: string;
  recompute: boolean;
  partial: boolean;
  vertices: Readonly<Record<string, readonly string[]>>;
  outputs: readonly string[];
  sums: readonly string[];
  optima: readonly Optimum[];
}

export interface PebblesData {
  about: { command: string; commit: string; date: string };
  graphs: readonly { id: string; title: string }[];
  games: readonly { id: string; title: string; says: string }[];
  boards: readonly Board[];
}

// What a game is played with, and what is known of it.
export interface Setting {
  graph: Graph;
  rules: Rules;
  best: Known | undefined;
}

export interface Known {
  words: number;
  moves: readonly Move[];
  theorem: readonly Theorem[] | null | undefined; // undefined where the parts were not searched
  by: string; // where it is from
}

export const graphOfBoard = (board: Board): Graph =>
  graphOf(board.name, Object.entries(board.vertices), board.outputs, board.sums);

// More memory than the last optimum's saves nothing: that one moves only what every game must.
export function known(board: Board, M: number, by: string): Known | undefined {
  const last = board.optima.at(-1);
  const best = board.optima.find((x) => x.M === M) ?? (last && M > last.M ? last : undefined);
  if (!best) return undefined;
  const theorem = best.M === M || best.theorem === null ? best.theorem : undefined;
  return { words: best.words, moves: best.moves.map(moveOf), theorem, by };
}
