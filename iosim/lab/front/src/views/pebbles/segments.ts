// Hong and Kung's segments of a game (STOC 1981; proofs/hong_kung.md).  A test holds them, and the
// cleaned games, to the proof's own code and to iosim.pebbling.segments.
import type { Graph, Move } from "./rules";

export interface Segment {
  from: number; // its moves, from … to − 1, as numbers in the game that was cut
  to: number;
  loads: number;
  stores: number;
  part: string[]; // vertices that get their first red pebble in it
  dominator: string[]; // red at its start, or loaded in it
  last: string[]; // red at its end, or stored in it
  minimum: string[]; // of the part, those that no vertex of the part uses
}

const pays = (move: Move): boolean => move.kind === "load" || move.kind === "store";

// Cut before the transfer that would be one more than s.
export function segments(graph: Graph, moves: readonly Move[], s: number): Segment[] {
  const cuts: [from: number, to: number][] = [];
  let from = 0;
  let paid = 0;
  moves.forEach((move, k) => {
    if (!pays(move)) return;
    if (paid === s) {
      cuts.push([from, k]);
      [from, paid] = [k, 0];
    }
    paid += 1;
  });
  cuts.push([from, moves.length]);
  const red = new Set<string>();
  const ever = new Set<string>();
  return cuts.map(([from, to]) => {
    const these = moves.slice(from, to);
    const of = (kind: string) => these.filter((m) => m.kind === kind).map((m) => m.vertex);
    const [loaded, stored] = [of("load"), of("store")];
    const dominator = new Set([...red, ...loaded]);
    const part = new Set<string>();
    for (const { kind, vertex } of these) {
      if (kind === "delete") red.delete(vertex);
      else if (kind !== "store") {
        red.add(vertex);
        if (!ever.has(vertex)) part.add(vertex);
        ever.add(vertex);
      }
    }
    return {
      from, to, loads: loaded.length, stores: stored.length, part: [...part], dominator: [...dominator],
      last: [...new Set([...red, ...stored])],
      minimum: [...part].filter((v) => !graph.succs.get(v)!.some((w) => part.has(w))),
    };
  });
}

// Lemma 1: which moves stay when those that nothing uses are left out, again and again.  A load or a
// computation is used when an operation reads the vertex, or it is stored, before it is deleted; a
// store when the vertex is an output or is loaded later.  In a game that goes on, what has not been
// deleted may yet be used.
export function clean(graph: Graph, moves: readonly Move[], over: boolean): number[] {
  let kept = moves.map((_, k) => k);
  for (;;) {
    const gone = unused(graph, kept.map((k) => moves[k]!), over);
    if (!gone.size) return kept;
    kept = kept.filter((_, k) => !gone.has(k));
  }
}

function unused(graph: Graph, moves: readonly Move[], over: boolean): Set<number> {
  const gone = new Set<number>();
  for (let k = 0; k < moves.length; k++) {
    const { kind, vertex: v } = moves[k]!;
    const rest = moves.slice(k + 1);
    if (kind === "store") {
      if (over && !graph.outputs.has(v) && !rest.some((m) => m.kind === "load" && m.vertex === v)) gone.add(k);
    } else if (kind !== "delete") {
      const end = rest.findIndex((m) => m.kind === "delete" && m.vertex === v);
      const held = end < 0 ? rest : rest.slice(0, end);
      if ((end < 0 && !over) || held.some((m) => reads(graph, m, v))) continue;
      gone.add(k);
      if (end >= 0) gone.add(k + 1 + end);
      return gone; // what follows was judged with it
    }
  }
  return gone;
}

function reads(graph: Graph, move: Move, v: string): boolean {
  if (move.kind === "store") return move.vertex === v;
  if (move.kind === "compute") return graph.preds.get(move.vertex)!.includes(v);
  return false;
}

// Whether every path from an input to the part meets the set: the proof's claim, looked at.
export function dominates(graph: Graph, set: ReadonlySet<string>, part: ReadonlySet<string>): boolean {
  const reached = new Set<string>();
  for (const v of graph.vertices) {
    const operands = graph.preds.get(v)!;
    if (!set.has(v) && (!operands.length || operands.some((p) => reached.has(p)))) reached.add(v);
  }
  return ![...part].some((v) => reached.has(v));
}
