// A game with its undone moves: what undo, redo, replay and the log are made of.
import { useMemo, useReducer } from "preact/hooks";
import { type Graph, isForbidden, type Forbidden, type Move, play, type Position, replay, type Rules } from "./rules";

interface History {
  moves: readonly Move[];
  at: number; // moves that are made; the others can be made again
}

type Change = { go: number } | { play: Move } | { take: readonly Move[]; at: number };

function change(now: History, what: Change): History {
  if ("go" in what) return { ...now, at: Math.min(Math.max(what.go, 0), now.moves.length) };
  if ("take" in what) return { moves: what.take, at: what.at };
  // The same move again keeps what was undone after it.
  const next = now.moves[now.at];
  const same = next && next.kind === what.play.kind && next.vertex === what.play.vertex && next.term === what.play.term;
  return { moves: same ? now.moves : [...now.moves.slice(0, now.at), what.play], at: now.at + 1 };
}

export interface Playing {
  moves: readonly Move[]; // all, with those that were undone
  made: readonly Move[];
  at: number;
  position: Position;
  positions: readonly Position[]; // before the first move, after the first, …
  play: (move: Move) => Forbidden | undefined; // what forbids it; then nothing changes
  go: (at: number) => void;
  take: (moves: readonly Move[], at: number) => void; // another game
}

export function useGame(graph: Graph, rules: Rules): Playing {
  const [{ moves, at }, send] = useReducer(change, { moves: [], at: 0 });
  const positions = useMemo(() => replay(graph, rules, moves), [graph, rules, moves]);
  const made = useMemo(() => moves.slice(0, at), [moves, at]);
  const position = positions[at]!;
  return {
    moves, made, at, position, positions,
    play: (move) => {
      const next = play(graph, rules, position, move);
      if (isForbidden(next)) return next;
      send({ play: move });
      return undefined;
    },
    go: (to) => send({ go: to }),
    take: (taken, to) => send({ take: taken, at: to }),
  };
}
