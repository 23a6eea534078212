// The fewest transfers from a position to the end, on graphs small enough, with moves that attain it.
// A* over the positions between two operations.  A test holds it to iosim's solver on random graphs.
//
// A load waits until its value is used, a deletion until its place is needed, a store until the
// deletion; outputs are stored at once, and what has no further use goes at once.  None of that costs
// a transfer, so what is left to choose is the order of operations and what to evict at each.
import { complete, type Graph, type Move, type Position, type Rules } from "./rules";

export interface Progress {
  states: number;
  atLeast: number; // transfers from here: no game has fewer
}

export type Answer =
  | { words: number; moves: Move[] } // from the position on
  | { lost: string } // a value that is needed, is gone and may not be computed again
  | { stopped: string };

export const MOST = 30; // vertices, and operations: they are the bits of a number

interface State {
  red: number;
  blue: number;
  done: number; // operations, by bit; none where values may be computed again
}

interface Node extends State {
  paid: number;
  before: Node | undefined;
  step: Step | undefined;
}

interface Operation {
  target: number;
  term: number; // −1 for none
  bit: number; // of itself in `done`
  own: number; // the bit of making the term, where that can happen on the fly
}

interface Step {
  op: Operation;
  evicted: number;
  stored: number;
}

export function* search(graph: Graph, rules: Rules, from: Position, limit = 400_000): Generator<Progress, Answer> {
  const game = compile(graph, rules);
  if (typeof game === "string") return { stopped: game };
  const seen = new Map<string, Node>();
  const queue: Node[][] = []; // by the transfers that a game through the position has at least
  const first = { ...game.settle(game.state(from)), before: undefined, step: undefined };
  const gone = game.lost(first);
  if (gone >= 0) return { lost: graph.vertices[gone]! };
  let level = 0;
  const push = (node: Node) => {
    const key = game.key(node);
    const old = seen.get(key);
    if (old && old.paid <= node.paid) return;
    seen.set(key, node);
    // What is due may fall by more than was paid; what is known of the node before it still holds.
    (queue[Math.max(level, node.paid + game.due(node))] ??= []).push(node);
  };
  push(first);
  let looked = 0;
  for (; level < queue.length; level++) {
    const bucket = queue[level];
    while (bucket?.length) {
      const node = bucket.pop()!;
      if (seen.get(game.key(node)) !== node) continue;
      if (game.over(node)) return { words: node.paid, moves: game.moves(from, node) };
      if (seen.size > limit) return { stopped: `more than ${limit.toLocaleString("en-US")} positions` };
      for (const next of game.after(node)) push(next);
      if (++looked % 500 === 0) yield { states: seen.size, atLeast: level };
    }
  }
  return { stopped: "no game was found" };
}

// A value that the game can't be finished without, and that can't be had again.
export function lostValue(graph: Graph, rules: Rules, at: Position): string | undefined {
  const game = compile(graph, rules);
  if (typeof game === "string") return undefined;
  const gone = game.lost(game.settle(game.state(at)));
  return gone < 0 ? undefined : graph.vertices[gone];
}

const bitsOf = (set: number): number[] => {
  const out = [];
  for (let v = 0; set >>> v; v++) if ((set >>> v) & 1) out.push(v);
  return out;
};

function size(set: number): number {
  let count = 0;
  for (; set; set &= set - 1) count++;
  return count;
}

// Subsets with `many` members.
function* choose(members: readonly number[], many: number, at = 0): Generator<number> {
  if (many === 0) yield 0;
  else for (let k = at; k <= members.length - many; k++) {
    for (const rest of choose(members, many - 1, k + 1)) yield rest | (1 << members[k]!);
  }
}

function* subsets(set: number): Generator<number> {
  for (let part = set; ; part = (part - 1) & set) {
    yield part;
    if (!part) return;
  }
}


function compile(graph: Graph, rules: Rules) {
  const { vertices } = graph;
  const number = new Map(vertices.map((v, k) => [v, k]));
  const mask = (names: Iterable<string>) => [...names].reduce((set, v) => set | (1 << number.get(v)!), 0);
  const ops: Operation[] = [];
  const own = vertices.map(() => 0); // the bit of making a vertex at once
  for (const [k, v] of vertices.entries()) {
    if (!graph.preds.get(v)!.length || (rules.partial && graph.sums.has(v))) continue;
    own[k] = 1 << ops.length;
    ops.push({ target: k, term: -1, bit: own[k]!, own: 0 });
  }
  for (const v of rules.partial ? graph.sums : []) {
    for (const t of graph.preds.get(v)!) {
      const term = number.get(t)!;
      ops.push({ target: number.get(v)!, term, bit: 1 << ops.length, own: graph.fused.has(t) ? own[term]! : 0 });
    }
  }
  if (vertices.length > MOST || ops.length > MOST) return `the graph has more than ${MOST} vertices`;

  const preds = vertices.map((v) => mask(graph.preds.get(v)!));
  const isInput = mask(vertices.filter((v) => !graph.preds.get(v)!.length));
  const outputs = mask([...graph.outputs].filter((v) => graph.preds.get(v)!.length));
  // Of a vertex: the operations that make it, and those that it is still good for.
  const whole = vertices.map((_, k) => ops.filter((o) => o.target === k).reduce((set, o) => set | o.bit, 0));
  const uses = vertices.map((v, k) => {
    let set = rules.partial && graph.sums.has(v) ? whole[k]! : 0;
    for (const o of ops) if (o.term === k || (o.term < 0 && (preds[o.target]! >>> k) & 1)) set |= o.bit;
    return set;
  });
  // The outputs that depend on a vertex.
  const leads = vertices.map(() => 0);
  for (let k = vertices.length - 1; k >= 0; k--) {
    for (const w of graph.succs.get(vertices[k]!)!) leads[k]! |= leads[number.get(w)!]! | (outputs & (1 << number.get(w)!));
  }
  const again = rules.recompute;
  const isWhole = (s: State, k: number) => again || (s.done & whole[k]!) === whole[k];
  const begun = (s: State, k: number) => !again && (s.done & whole[k]!) !== 0;
  const unstored = (s: State) => bitsOf(outputs).reduce(
    (set, k) => ((s.blue >>> k) & 1 && isWhole(s, k) ? set : set | (1 << k)), 0);
  const live = (s: State, k: number, open: number) => (again ? leads[k]! & open : uses[k]! & ~s.done) !== 0;

  // Store the outputs that are made, and drop what has no further use.
  function settle(s: State & { paid: number }): State & { paid: number } {
    let { red, blue, paid } = s;
    for (const k of bitsOf(outputs & red & ~blue)) {
      if (isWhole(s, k)) [blue, paid] = [blue | (1 << k), paid + 1];
    }
    const open = unstored({ red, blue, done: s.done });
    for (let k = 0; k < vertices.length; k++) {
      if (live(s, k, open) || (open >>> k) & 1) continue;
      red &= ~(1 << k);
      blue = (isInput | outputs) & (1 << k) ? blue : blue & ~(1 << k);
    }
    return { red, blue, done: s.done, paid };
  }

  // What an operation reads, and the bits that it sets; undefined where it can't be next.
  function plan(s: State, o: Operation): { reads: number; sets: number } | undefined {
    if (again ? (s.red >>> o.target) & 1 : s.done & o.bit) return undefined;
    if (o.term < 0) {
      // A term that goes into its sum on the fly is never worth making apart.
      if (rules.partial && graph.fused.has(vertices[o.target]!)) return undefined;
      const reads = preds[o.target]!;
      return bitsOf(reads).every((p) => isWhole(s, p)) ? { reads, sets: again ? 0 : o.bit } : undefined;
    }
    const flies = o.own && !(s.done & o.own);
    const operands = flies ? preds[o.term]! : 1 << o.term;
    if (!bitsOf(operands).every((p) => isWhole(s, p))) return undefined;
    return { reads: operands | (begun(s, o.target) ? 1 << o.target : 0), sets: o.bit | (flies ? o.own : 0) };
  }

  return {
    state: (at: Position): State & { paid: number } => ({
      red: mask(at.red), blue: mask(at.blue), paid: 0,
      done: again ? 0 : ops.reduce((set, o) => {
        const v = vertices[o.target]!;
        const made = complete(graph, at, v) || (o.term >= 0 && at.terms.get(v)?.has(vertices[o.term]!));
        return made ? set | o.bit : set;
      }, 0),
    }),
    settle,
    key: ({ red, blue, done }: State) => String.fromCharCode(
      red & 0xffff, red >>> 16, blue & 0xffff, blue >>> 16, done & 0xffff, done >>> 16),
    over: (s: State) => unstored(s) === 0,

    // A value that is needed and can't come back; −1 for none.
    lost(s: State): number {
      const open = unstored(s);
      return vertices.findIndex((_, k) => begun(s, k) && (live(s, k, open) || (open >>> k) & 1) && !(((s.red | s.blue) >>> k) & 1));
    },

    // Transfers that must follow: outputs to store, and values to load that are not red.
    due(s: State): number {
      const open = unstored(s);
      let count = size(open);
      if (!again) {
        for (let k = 0; k < vertices.length; k++) {
          if (!((s.red >>> k) & 1) && ((isInput >>> k) & 1 || begun(s, k)) && live(s, k, open)) count++;
        }
        return count;
      }
      // Inputs below the outputs that are not red, as far as no blue pebble is on the way.
      let wanted = open & ~s.red;
      for (let k = vertices.length - 1; k >= 0; k--) {
        if (!((wanted >>> k) & 1)) continue;
        if ((isInput >>> k) & 1) count++;
        else if (!((s.blue >>> k) & 1)) wanted |= preds[k]! & ~s.red;
      }
      return count;
    },

    *after(node: Node): Generator<Node> {
      const open = unstored(node);
      for (const op of ops) {
        if (again && !((open >>> op.target) & 1) && !live(node, op.target, open)) continue;
        const next = plan(node, op);
        if (!next || next.reads & ~(node.red | node.blue)) continue;
        const loaded = next.reads & ~node.red;
        const kept = next.reads | (1 << op.target);
        const over = Math.max(0, size(node.red | kept) - rules.M);
        for (const evicted of choose(bitsOf(node.red & ~kept), over)) {
          const dirty = evicted & ~node.blue;
          for (const stored of again ? subsets(dirty) : [dirty]) {
            const adds = op.term >= 0 ? 1 << op.target : 0;
            yield {
              ...settle({
                red: (node.red & ~evicted) | kept,
                blue: (node.blue | stored) & ~adds,
                done: node.done | next.sets,
                paid: node.paid + size(loaded) + size(stored),
              }),
              before: node, step: { op, evicted, stored },
            };
          }
        }
      }
    },

    // The moves that lead from a position to a node, one by one.
    moves(from: Position, last: Node): Move[] {
      const path: Node[] = [];
      for (let node: Node | undefined = last; node; node = node.before) path.unshift(node);
      const out: Move[] = [];
      let here = this.state(from) as State;
      const move = (kind: Move["kind"], k: number, term = -1) =>
        out.push({ kind, vertex: vertices[k]!, ...(term >= 0 ? { term: vertices[term]! } : {}) });
      for (const node of path) {
        let { red } = here;
        let { blue } = here;
        if (node.step) {
          const { op, evicted, stored } = node.step;
          for (const k of bitsOf(evicted)) {
            if ((stored >>> k) & 1) move("store", k);
            move("delete", k);
          }
          red &= ~evicted;
          const { reads } = plan(here, op)!;
          for (const k of bitsOf(reads & ~red)) move("load", k);
          move(op.term < 0 ? "compute" : "add", op.target, op.term);
          red |= reads | (1 << op.target);
          blue = (blue | stored) & ~(op.term >= 0 ? 1 << op.target : 0);
        }
        for (const k of bitsOf(outputs & node.blue & ~blue)) move("store", k);
        for (const k of bitsOf(red & ~node.red)) move("delete", k);
        here = node;
      }
      return out;
    },
  };
}

