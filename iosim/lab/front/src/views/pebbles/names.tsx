// How vertices are written: C[0,1] as C with its indices lowered, the whole name for screen readers.
import { complete, type Graph, legal, type Position, type Rules } from "./rules";

export function parts(name: string): { stem: string; index: string } {
  const found = /^(.+?)\[(.+)\](.*)$/.exec(name) ?? /^(\D+)(\d.*)()$/.exec(name);
  return found ? { stem: found[1]! + found[3]!, index: found[2]! } : { stem: name, index: "" };
}

// A name as it is drawn, in words for those who hear it or say it.
export function asDrawn(name: string): string {
  const { stem, index } = parts(name);
  return stem + index;
}

export function NameInSvg({ name, ...rest }: { name: string } & Record<string, unknown>) {
  const { stem, index } = parts(name);
  return (
    <text {...rest}>
      {stem}
      {index && <tspan class="index" dy="0.28em">{index}</tspan>}
    </text>
  );
}

export const KEY = { load: "L", compute: "C", add: "A", store: "S", delete: "D" } as const;

// A vertex, its pebbles, its operands and its legal moves, in words.
export function inWords(graph: Graph, rules: Rules, at: Position, v: string): string {
  const operands = graph.preds.get(v)!;
  const pebbles = [at.red.has(v) && "red pebble", at.blue.has(v) && "blue pebble"].filter(Boolean);
  const inside = at.terms.get(v)?.size ?? 0;
  const moves = legal(graph, rules, at, v).map((m) => (m.term ? `add ${asDrawn(m.term)}` : m.kind));
  return [
    operands.length ? (graph.outputs.has(v) ? `${asDrawn(v)}, output` : asDrawn(v)) : `${asDrawn(v)}, input`,
    pebbles.join(" and ") || "no pebble",
    !pebbles.length && operands.length && complete(graph, at, v) && "was computed",
    inside > 0 && inside < operands.length && `${inside} of ${operands.length} terms in it`,
    operands.length && `operands ${operands.map(asDrawn).join(" ")}`,
    moves.length ? `legal: ${moves.join(", ")}` : "no legal move",
  ].filter(Boolean).join("; ");
}

export const many = (count: number, what: string): string => `${count} ${what}${count === 1 ? "" : "s"}`;
