// Where operators are drawn: the forward pass from the top down, the backward pass beside it from
// the bottom up, each in layers.
import { graphlib, layout as arrange } from "@dagrejs/dagre";
import type { Graph } from "./data";
import { backward, type Edge } from "./edges";

export const BOX = { width: 100, height: 36 };
const GAP = { node: 14, layer: 26, halves: 90, edge: 22 };

const ROOT = "root"; // no operator: it is not drawn

export interface Place {
  x: number; // of the middle
  y: number;
}

export interface Layout {
  width: number;
  height: number;
  nodes: Place[];
  paths: Map<string, Place[]>; // by edge, from one box to the other
}

export function layout(graph: Graph, edges: readonly Edge[]): Layout {
  const back = backward(graph);
  const every = graph.operators.map((_, k) => k);
  const halves = [every.filter((k) => !back.has(k)), every.filter((k) => back.has(k))].filter((x) => x.length);
  const nodes: Place[] = [];
  const paths = new Map<string, Place[]>();
  const drawn = halves.map((ops, half) => one(ops, edges, half ? "BT" : "TB"));
  const height = Math.max(...drawn.map((x) => x.height));
  let left = GAP.edge;
  for (const half of drawn) {
    const move = (p: Place) => ({ x: p.x + left, y: p.y + height - half.height });
    for (const [k, p] of half.nodes) nodes[k] = move(p);
    for (const [id, points] of half.paths) paths.set(id, points.map(move));
    left += half.width + GAP.halves;
  }
  for (const edge of edges) if (!paths.has(edge.id)) paths.set(edge.id, beside(nodes[edge.from]!, nodes[edge.to]!));
  return { width: left - GAP.halves + GAP.edge, height, nodes, paths };
}

function one(ops: readonly number[], edges: readonly Edge[], rankdir: "TB" | "BT") {
  const g = new graphlib.Graph();
  g.setGraph({ rankdir, nodesep: GAP.node, ranksep: GAP.layer, edgesep: 14, marginy: 12 });
  g.setDefaultEdgeLabel(() => ({}));
  for (const k of ops) g.setNode(String(k), { width: BOX.width, height: BOX.height });
  const mine = edges.filter((e) => e.kind === "flow" && g.hasNode(String(e.from)) && g.hasNode(String(e.to)));
  // Forward, what reads one tensor is drawn near it, and so side by side; backward, gradients that
  // are added up are drawn near their sum.
  const weight = (e: Edge) => (rankdir === "TB" ? mine.filter((x) => x.from === e.from).length : 1);
  for (const e of mine) g.setEdge(String(e.from), String(e.to), { weight: weight(e) });
  // What reads nothing that is drawn is kept beside its like, at the beginning.
  const first = ops.filter((k) => !mine.some((e) => e.to === k));
  g.setNode(ROOT, { width: 0, height: 0 });
  for (const k of first) g.setEdge(ROOT, String(k), { weight: first.length });
  arrange(g);
  const { width = 0, height = 0 } = g.graph();
  return {
    width, height,
    nodes: ops.map((k): [number, Place] => [k, g.node(String(k)) as Place]),
    paths: mine.map((e): [string, Place[]] => [e.id, g.edge(String(e.from), String(e.to)).points as Place[]]),
  };
}

// From side to side, or over the boxes between two of one layer.
function beside(a: Place, b: Place): Place[] {
  if (Math.abs(a.y - b.y) < BOX.height && Math.abs(a.x - b.x) > 2 * BOX.width) {
    const over = a.y - BOX.height / 2 - 14;
    return [{ x: a.x, y: a.y - BOX.height / 2 }, { x: (a.x + b.x) / 2, y: over - 8 }, { x: b.x, y: b.y - BOX.height / 2 }];
  }
  if (Math.abs(a.x - b.x) < BOX.width) {
    const side = Math.max(a.x, b.x) + BOX.width / 2;
    const down = a.y < b.y ? 1 : -1;
    return [
      { x: a.x, y: a.y + (down * BOX.height) / 2 },
      ...(Math.abs(a.y - b.y) > 2 * BOX.height ? [{ x: side + 10, y: (a.y + b.y) / 2 }] : []),
      { x: b.x, y: b.y - (down * BOX.height) / 2 },
    ];
  }
  const way = a.x < b.x ? 1 : -1;
  const [from, to] = [a.x + (way * BOX.width) / 2, b.x - (way * BOX.width) / 2];
  return [{ x: from, y: a.y }, { x: from + (to - from) * 0.3, y: a.y }, { x: from + (to - from) * 0.7, y: b.y }, { x: to, y: b.y }];
}
