// A graph drawn by hand: vertices with places, edges from operands to results, and no cycle.
import { type Graph, graphOf } from "./rules";

export interface Drawing {
  places: ReadonlyMap<string, Place>; // vertices, in the order in which they were drawn
  edges: readonly Edge[];
}

export interface Place {
  x: number; // both from 0 to 1, from the left and from the top
  y: number;
}

export type Edge = readonly [operand: string, result: string];

export class Refused extends Error {} // what is wrong, for the person who draws

export const EMPTY: Drawing = { places: new Map(), edges: [] };
export const MOST_VERTICES = 26;

// The first name from a, b, c, … that is free.
export function freeName(drawing: Drawing): string {
  for (let k = 0; k < MOST_VERTICES; k++) {
    const name = String.fromCharCode(97 + k);
    if (!drawing.places.has(name)) return name;
  }
  for (let k = 1; ; k++) if (!drawing.places.has(`v${k}`)) return `v${k}`;
}

export function addVertex(drawing: Drawing, place: Place, name = freeName(drawing)): Drawing {
  if (drawing.places.size >= MOST_VERTICES) {
    throw new Refused(`a drawing has at most ${MOST_VERTICES} vertices: delete one first`);
  }
  return { ...drawing, places: new Map(drawing.places).set(name, place) };
}

export function addEdge(drawing: Drawing, [from, to]: Edge): Drawing {
  if (from === to) throw new Refused(`${from} cannot be its own operand: choose another vertex`);
  if (drawing.edges.some(([a, b]) => a === from && b === to)) {
    throw new Refused(`${from} is an operand of ${to} already`);
  }
  const path = way(drawing.edges, to, from);
  if (path) throw new Refused(`the edge ${from} → ${to} would close a cycle, ${[...path, to].join(" → ")}: remove one edge first`);
  return { ...drawing, edges: [...drawing.edges, [from, to]] };
}

export const removeEdge = (drawing: Drawing, [from, to]: Edge): Drawing => ({
  ...drawing, edges: drawing.edges.filter(([a, b]) => a !== from || b !== to),
});

export function removeVertex(drawing: Drawing, name: string): Drawing {
  const places = new Map(drawing.places);
  places.delete(name);
  return { places, edges: drawing.edges.filter(([a, b]) => a !== name && b !== name) };
}

export const moveVertex = (drawing: Drawing, name: string, place: Place): Drawing => ({
  ...drawing, places: new Map(drawing.places).set(name, place),
});

// A path along the edges, if there is one.
function way(edges: readonly Edge[], from: string, to: string, seen = new Set<string>()): string[] | undefined {
  if (from === to) return [to];
  seen.add(from);
  for (const [a, b] of edges) {
    if (a !== from || seen.has(b)) continue;
    const rest = way(edges, b, to, seen);
    if (rest) return [from, ...rest];
  }
  return undefined;
}

// "a c" on a line is an edge from a to c, "a" alone a vertex; # begins a comment.
export function fromText(text: string): Drawing {
  let drawing = EMPTY;
  const known = (name: string) => {
    if (!drawing.places.has(name)) drawing = addVertex(drawing, { x: 0.5, y: 0.5 }, name);
  };
  for (const [k, line] of text.split(/[\n;]/).entries()) {
    const names = line.replace(/#.*/, "").trim().split(/\s+/).filter(Boolean);
    if (names.length > 2) throw new Refused(`line ${k + 1} has ${names.length} names: write "operand result"`);
    const long = names.find((name) => name.length > 12);
    if (long) throw new Refused(`line ${k + 1}: ${long.slice(0, 12)}… is longer than 12 letters: give a shorter name`);
    try {
      names.forEach(known);
      if (names.length === 2) drawing = addEdge(drawing, [names[0]!, names[1]!]);
    } catch (error) {
      if (error instanceof Refused) throw new Refused(`line ${k + 1}: ${error.message}`);
      throw error;
    }
  }
  if (!drawing.places.size) return drawing;
  const places = layout(graphFrom(drawing));
  return { ...drawing, places: new Map([...drawing.places.keys()].map((v) => [v, places.get(v)!])) };
}

export function toText({ places, edges }: Drawing): string {
  const alone = [...places.keys()].filter((v) => !edges.some(([a, b]) => a === v || b === v));
  return [...alone, ...edges.map(([a, b]) => `${a} ${b}`)].join("\n");
}

// The graph to play on, vertices in topological order, ties in the order in which they were drawn.
export function graphFrom({ places, edges }: Drawing): Graph {
  const operands = new Map([...places.keys()].map((v) => [v, [] as string[]]));
  for (const [a, b] of edges) operands.get(b)!.push(a);
  const waiting = new Map([...operands].map(([v, ps]) => [v, ps.length]));
  const ready = [...places.keys()].filter((v) => !waiting.get(v));
  for (const v of ready) {
    for (const [a, b] of edges) {
      if (a !== v) continue;
      waiting.set(b, waiting.get(b)! - 1);
      if (!waiting.get(b)) ready.push(b);
    }
  }
  return graphOf("your graph", ready.map((v) => [v, operands.get(v)!] as const));
}

// Rows by the longest way from an input; in a row, each vertex as near to its operands' middle as the
// others let it be.
export function layout(graph: Graph): Map<string, Place> {
  const rowOf = new Map<string, number>();
  for (const v of graph.vertices) {
    rowOf.set(v, Math.max(0, ...graph.preds.get(v)!.map((p) => rowOf.get(p)! + 1)));
  }
  const rows: string[][] = [];
  for (const v of graph.vertices) (rows[rowOf.get(v)!] ??= []).push(v);
  const apart = 1 / Math.max(...rows.map((row) => row.length));
  const xs = new Map<string, number>();
  const put = (row: string[], wish: ReadonlyMap<string, number>) => {
    row.sort((a, b) => wish.get(a)! - wish.get(b)!);
    spaced(row.map((v) => wish.get(v)!), apart).forEach((x, k) => xs.set(row[k]!, x));
  };
  const middle = (v: string, near: readonly string[]) =>
    near.length ? near.reduce((sum, w) => sum + xs.get(w)!, 0) / near.length : xs.get(v) ?? 0.5;
  for (const [k, row] of rows.entries()) {
    // Inputs keep the order in which they are written.
    put(row, new Map(row.map((v, j) => [v, k ? middle(v, graph.preds.get(v)!) : (j + 0.5) / row.length])));
  }
  for (let sweep = 0; sweep < 4; sweep++) {
    for (const row of rows.slice(1, -1).reverse()) put(row, new Map(row.map((v) => [v, middle(v, graph.succs.get(v)!)])));
    for (const row of rows.slice(1)) put(row, new Map(row.map((v) => [v, middle(v, graph.preds.get(v)!)])));
  }
  const y = (row: number) => (rows.length === 1 ? 0.5 : row / (rows.length - 1));
  return new Map(graph.vertices.map((v) => [v, { x: xs.get(v)!, y: y(rowOf.get(v)!) }]));
}

// Places from 0 to 1, in the same order and at least so far apart, as near as may be to those wished.
function spaced(wish: readonly number[], apart: number): number[] {
  const groups: { sum: number; many: number }[] = [];
  wish.forEach((x, k) => {
    groups.push({ sum: x - k * apart, many: 1 });
    for (;;) {
      const [a, b] = groups.slice(-2);
      if (!a || !b || a.sum / a.many < b.sum / b.many) break;
      groups.splice(-2, 2, { sum: a.sum + b.sum, many: a.many + b.many });
    }
  });
  const left = groups.flatMap(({ sum, many }) => Array<number>(many).fill(sum / many));
  const room = 1 - (wish.length - 0.5) * apart; // the last one's place, less what the others take
  return left.map((x, k) => Math.min(Math.max(x, apart / 2), room) + k * apart);
}
