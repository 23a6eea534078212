// Answers questions about pebble games in node, for tests: a list of questions as JSON on standard
// input, a list of answers on standard output.
import { addEdge, addVertex, EMPTY, fromText, graphFrom, layout, Refused, toText } from "./drawing";
import {
  compulsory, finished, type Graph, graphOf, isForbidden, leastMemory, legal, moveOf, play, type Position, type Rules, start,
} from "./rules";
import { search } from "./search";
import { clean, dominates, segments } from "./segments";

declare const process: {
  stdin: AsyncIterable<Uint8Array>;
  stdout: { write(text: string): void };
};

interface Board {
  vertices: [string, string[]][];
  outputs: string[];
  sums: string[];
}

const graphFor = ({ vertices, outputs, sums }: Board): Graph => graphOf("graph", vertices, outputs, sums);

function said(at: Position) {
  return {
    red: [...at.red].sort(), blue: [...at.blue].sort(), computed: [...at.computed].sort(),
    terms: [...at.terms].filter(([, ts]) => ts.size).map(([v, ts]) => [v, [...ts].sort()]).sort(),
    loads: at.loads, stores: at.stores,
  };
}

// Plays moves, leaving out those that are forbidden.
function game(board: Board, rules: Rules, moves: string[]) {
  const graph = graphFor(board);
  let at = start(graph);
  const answers = moves.map((text) => {
    const next = play(graph, rules, at, moveOf(text));
    if (isForbidden(next)) return { why: next.why, culprits: next.culprits };
    at = next;
    return said(at);
  });
  return { answers, finished: finished(graph, at), least: leastMemory(graph, rules.partial), at };
}

const ASK: Record<string, (q: any) => unknown> = {
  game: ({ board, rules, moves }) => {
    const { at: _, ...rest } = game(board, rules, moves);
    return rest;
  },
  legal: ({ board, rules, moves }) => {
    const graph = graphFor(board);
    const { at } = game(board, rules, moves);
    return graph.vertices.flatMap((v) => legal(graph, rules, at, v).map((m) => [m.kind, m.vertex, m.term].filter(Boolean).join(" ")));
  },
  search: ({ board, rules, moves, limit }) => {
    const graph = graphFor(board);
    const { at } = game(board, rules, moves ?? []);
    const run = search(graph, rules, at, limit);
    let states = 0;
    for (;;) {
      const { done, value } = run.next();
      if (done) return { ...value, states };
      states = value.states;
    }
  },
  compulsory: ({ board }) => compulsory(graphFor(board)),
  dominates: ({ board, set, part }) => dominates(graphFor(board), new Set(set), new Set(part)),
  segments: ({ board, moves, s }) => {
    const graph = graphFor(board);
    const parsed = moves.map(moveOf);
    return segments(graph, parsed, s).map((x) => ({
      ...x, dominated: dominates(graph, new Set(x.dominator), new Set(x.part)),
    }));
  },
  clean: ({ board, moves, over }) => clean(graphFor(board), moves.map(moveOf), over),
  text: ({ text }) => {
    try {
      const drawing = fromText(text);
      const graph = graphFrom(drawing);
      return { vertices: graph.vertices.map((v) => [v, graph.preds.get(v)]), text: toText(drawing), places: [...drawing.places] };
    } catch (error) {
      if (error instanceof Refused) return { refused: error.message };
      throw error;
    }
  },
  edges: ({ names, edges }) => {
    let drawing = EMPTY;
    for (const name of names) drawing = addVertex(drawing, { x: 0, y: 0 }, name);
    return edges.map((edge: [string, string]) => {
      try {
        drawing = addEdge(drawing, edge);
        return "";
      } catch (error) {
        if (error instanceof Refused) return error.message;
        throw error;
      }
    });
  },
  layout: ({ board }) => [...layout(graphFor(board))],
};

let text = "";
const decoder = new TextDecoder();
for await (const chunk of process.stdin) text += decoder.decode(chunk, { stream: true });
const questions: { ask: string }[] = JSON.parse(text);
process.stdout.write(JSON.stringify(questions.map((q) => ASK[q.ask]!(q))));
