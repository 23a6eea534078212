// The red-blue pebble game: what a move does, and what forbids it.  The page's counterpart of
// iosim.pebbling.Game; a test plays the same games, legal moves and illegal ones, on both, and holds
// positions, counts and messages equal.

export type Kind = "load" | "store" | "compute" | "add" | "delete";
export const KINDS: readonly Kind[] = ["load", "compute", "add", "store", "delete"];

export interface Move {
  kind: Kind;
  vertex: string;
  term?: string; // what "add" adds
}

export interface Graph {
  name: string;
  vertices: readonly string[]; // in topological order
  preds: ReadonlyMap<string, readonly string[]>;
  succs: ReadonlyMap<string, readonly string[]>;
  outputs: ReadonlySet<string>;
  sums: ReadonlySet<string>;
  fused: ReadonlySet<string>; // terms of one sum only, which a multiply–add may consume on the fly
}

export interface Rules {
  M: number;
  recompute: boolean;
  partial: boolean;
}

export interface Position {
  red: ReadonlySet<string>;
  blue: ReadonlySet<string>;
  computed: ReadonlySet<string>;
  terms: ReadonlyMap<string, ReadonlySet<string>>; // of a sum, those that are in it
  loads: number;
  stores: number;
}

// Why a move is none: the rule that it breaks, the message, and the vertices that stand in its way.
export interface Forbidden {
  forbidden: true;
  kind: Kind;
  why: string;
  culprits: readonly string[];
}

// The rules as docs/pebbling.md has them.
export const RULE: Readonly<Record<Kind, string>> = {
  load: "Load: a red pebble on a vertex that has a blue one; costs 1.",
  store: "Store: a blue pebble on a vertex that has a red one; costs 1.",
  compute: "Compute: a red pebble on a vertex all of whose operands are red; costs nothing.",
  add: "Add: a term with a red pebble goes into a sum that has one, or takes its first term; costs nothing.",
  delete: "Delete: takes a red pebble away; costs nothing.",
};

// From every vertex's operands, in topological order; outputs default to the sinks.
export function graphOf(
  name: string,
  operands: Iterable<readonly [string, readonly string[]]>,
  outputs?: readonly string[],
  sums: readonly string[] = [],
): Graph {
  const preds = new Map(operands);
  const vertices = [...preds.keys()];
  const succs = new Map<string, string[]>(vertices.map((v) => [v, []]));
  for (const [v, ps] of preds) for (const p of ps) succs.get(p)!.push(v);
  const out = new Set(outputs ?? vertices.filter((v) => !succs.get(v)!.length));
  const sum = new Set(sums);
  const fused = vertices.filter((v) => {
    const users = succs.get(v)!;
    return preds.get(v)!.length > 0 && users.length === 1 && sum.has(users[0]!) && !out.has(v) && !sum.has(v);
  });
  return { name, vertices, preds, succs, outputs: out, sums: sum, fused: new Set(fused) };
}

export const inputs = (graph: Graph): string[] => graph.vertices.filter((v) => !graph.preds.get(v)!.length);

// The smallest M with which any pebbling exists.
export function leastMemory(graph: Graph, partial: boolean): number {
  let found = 1;
  for (const v of graph.vertices) {
    const operands = graph.preds.get(v)!;
    if (partial && graph.sums.has(v)) {
      for (const t of operands) found = Math.max(found, 1 + (graph.fused.has(t) ? graph.preds.get(t)!.length : 1));
    } else if (operands.length && !(partial && graph.fused.has(v))) {
      found = Math.max(found, operands.length + 1);
    }
  }
  return found;
}

// Loads of the inputs that something uses and stores of the outputs: no game moves less.
export const compulsory = (graph: Graph): number =>
  graph.vertices.filter((v) => (graph.preds.get(v)!.length ? graph.outputs.has(v) : graph.succs.get(v)!.length)).length;

export const start = (graph: Graph): Position => ({
  red: new Set(), blue: new Set(inputs(graph)), computed: new Set(), terms: new Map(), loads: 0, stores: 0,
});

export const words = (position: Position): number => position.loads + position.stores;

export const complete = (graph: Graph, at: Position, v: string): boolean =>
  !graph.preds.get(v)!.length || at.computed.has(v);

export const missing = (graph: Graph, at: Position): string[] =>
  [...graph.outputs].filter((v) => !at.blue.has(v) || !complete(graph, at, v));

export const finished = (graph: Graph, at: Position): boolean => missing(graph, at).length === 0;

export const isForbidden = (x: Position | Forbidden): x is Forbidden => "forbidden" in x;

export const shown = (move: Move): string => `${move.kind} ${move.vertex}${move.term ? ` + ${move.term}` : ""}`;

// The position after a move, or why there is none.
export function play(graph: Graph, rules: Rules, at: Position, move: Move): Position | Forbidden {
  const v = move.vertex;
  const no = (why: string, ...culprits: string[]): Forbidden => ({ forbidden: true, kind: move.kind, why, culprits });
  const notRed = (p: string, what: string) => no(`${what}: ${p} has no red pebble: load or compute it first`, p);
  // The first operand that is not there, if any is.
  const operands = (of: string, what: string): Forbidden | undefined => {
    for (const p of graph.preds.get(of)!) {
      const found = operand(p, what);
      if (found) return { ...found, culprits: graph.preds.get(of)!.filter((q) => operand(q, what)) };
    }
    return undefined;
  };
  const operand = (p: string, what: string): Forbidden | undefined => {
    if (!at.red.has(p)) return notRed(p, what);
    if (!complete(graph, at, p)) return no(`${what}: the sum ${p} still lacks terms: add them first`, p);
    return undefined;
  };
  const full = (): Forbidden | undefined =>
    at.red.size >= rules.M
      ? no(`${v} would need a red pebble in addition to ${at.red.size} others, M = ${rules.M}: delete one first`, ...at.red)
      : undefined;

  switch (move.kind) {
    case "load":
      if (!at.blue.has(v)) return no(`load ${v}: it has no blue pebble: store it first`, v);
      if (at.red.has(v)) return no(`load ${v}: it has a red pebble already: leave the load out`, v);
      return full() ?? { ...at, red: plus(at.red, v), loads: at.loads + 1 };
    case "store":
      if (!at.red.has(v)) return notRed(v, `store ${v}`);
      if (at.blue.has(v)) return no(`store ${v}: it has a blue pebble already: leave the store out`, v);
      return { ...at, blue: plus(at.blue, v), stores: at.stores + 1 };
    case "delete":
      if (!at.red.has(v)) return notRed(v, `delete ${v}`);
      return { ...at, red: less(at.red, v) };
    case "compute":
      if (!graph.preds.get(v)!.length) return no(`compute ${v}: it is an input: load it`, v);
      if (at.red.has(v)) return no(`compute ${v}: it has a red pebble already: leave it out`, v);
      if (!rules.recompute && (at.computed.has(v) || at.terms.get(v)?.size)) {
        return no(`compute ${v} again: not without recomputation: store and load it`, v);
      }
      return operands(v, `compute ${v}`) ?? full()
        ?? { ...at, red: plus(at.red, v), computed: plus(at.computed, v) };
    case "add": {
      const t = move.term;
      if (!rules.partial || !graph.sums.has(v)) {
        return no(`add to ${v}: only a sum, in a game with partial computations`, v);
      }
      if (t === undefined || !graph.preds.get(v)!.includes(t)) return no(`add ${t} to ${v}: it is not a term of that sum`, v);
      const within = at.terms.get(v) ?? new Set<string>();
      if (within.has(t) || at.computed.has(v)) return no(`add ${t} to ${v}: the term is in it already`, v);
      const flying = onTheFly(graph, at, t);
      const lacking = flying ? operands(t, `add ${t} to ${v} on the fly`) : operand(t, `add ${t} to ${v}`);
      if (lacking) return lacking;
      if (!at.red.has(v)) {
        if (within.size) return notRed(v, `add ${t} to ${v}`);
        const crowded = full();
        if (crowded) return crowded;
      }
      const now = plus(within, t);
      let computed = flying ? plus(at.computed, t) : at.computed;
      if (now.size === graph.preds.get(v)!.length) computed = plus(computed, v);
      return {
        ...at, computed, red: plus(at.red, v), blue: less(at.blue, v), // what was stored of it is out of date
        terms: new Map(at.terms).set(v, now),
      };
    }
  }
}

// Whether a term would be made of its operands as it is added, and take no word.
export const onTheFly = (graph: Graph, at: Position, t: string): boolean =>
  graph.fused.has(t) && !at.red.has(t) && !at.computed.has(t);

// Every move that one may try on a vertex, in the order of the buttons.
export function tries(graph: Graph, rules: Rules, v: string): Move[] {
  return KINDS.flatMap((kind): Move[] => {
    if (kind !== "add") return [{ kind, vertex: v }];
    return rules.partial && graph.sums.has(v) ? graph.preds.get(v)!.map((term) => ({ kind, vertex: v, term })) : [];
  });
}

export const legal = (graph: Graph, rules: Rules, at: Position, v: string): Move[] =>
  tries(graph, rules, v).filter((move) => !isForbidden(play(graph, rules, at, move)));

// Positions from the start on; one more than there are moves.  Throws at a move that is forbidden.
export function replay(graph: Graph, rules: Rules, moves: readonly Move[]): Position[] {
  const found = [start(graph)];
  for (const move of moves) {
    const next = play(graph, rules, found[found.length - 1]!, move);
    if (isForbidden(next)) throw new Error(next.why);
    found.push(next);
  }
  return found;
}

export function moveOf(text: string): Move {
  const [kind, vertex, term] = text.split(" ");
  return { kind: kind as Kind, vertex: vertex!, ...(term === undefined ? {} : { term }) };
}

const plus = <T>(set: ReadonlySet<T>, x: T): ReadonlySet<T> => (set.has(x) ? set : new Set(set).add(x));

function less<T>(set: ReadonlySet<T>, x: T): ReadonlySet<T> {
  if (!set.has(x)) return set;
  const out = new Set(set);
  out.delete(x);
  return out;
}
