// What can be clicked in a layer's graph: two operators, and the tensors between them.
import type { Graph, Layer } from "./data";
import type { Rules } from "./rules";

export interface Edge {
  id: string;
  from: number;
  to: number;
  tensors: number[];
  kind: "flow" | "saved" | "shared"; // saved from the forward to the backward pass; both read it
}

// Operators of the backward pass: what comes behind a tensor that waits for the forward pass.
export function backward(graph: Graph): Set<number> {
  const behind = new Set(graph.waits.map(([given]) => given));
  const found = new Set<number>();
  graph.operators.forEach((op, k) => {
    if (!op.reads.some((t) => behind.has(t))) return;
    found.add(k);
    op.writes.forEach((t) => behind.add(t));
  });
  return found;
}

export function edges(rules: Rules): Edge[] {
  const { graph, readers, writer } = rules;
  const back = backward(graph);
  const found = new Map<string, Edge>();
  const add = (from: number, to: number, tensor: number, kind: Edge["kind"]) => {
    const id = `${from}-${to}`;
    const known = found.get(id);
    if (!known) found.set(id, { id, from, to, tensors: [tensor], kind });
    else if (known.kind === kind) known.tensors.push(tensor);
  };
  graph.tensors.forEach((_, t) => {
    const from = writer[t];
    if (from === undefined) return;
    for (const to of readers[t]!) add(from, to, t, back.has(from) === back.has(to) ? "flow" : "saved");
  });
  // Two that read one tensor, where the two alone are one kernel: one such edge for each reader.
  graph.tensors.forEach((_, t) =>
    readers[t]!.forEach((to, k) => {
      const from = readers[t]!.slice(0, k).reverse().find((x) => rules.judge([x, to]).legal);
      if (from !== undefined) add(from, to, t, "shared");
    }),
  );
  return [...found.values()].sort((a, b) => a.from - b.from || a.to - b.to);
}

export const bytesOf = (edge: Edge, layer: Layer) => edge.tensors.reduce((sum, t) => sum + layer.sizes[t]!, 0);

export const tensorNames = (edge: Edge, graph: Graph) => edge.tensors.map((t) => graph.tensors[t]!.name).join(", ");
