// The graph with its pebbles.  Red ones are circles with R, blue ones squares with B.
import { useRef } from "preact/hooks";
import { useWidth } from "../../ui";
import type { Place } from "./drawing";
import { inWords, KEY, NameInSvg } from "./names";
import { complete, type Graph, legal, type Position, type Rules } from "./rules";

// What a segment of Hong and Kung's proof makes of a vertex.
export interface Marks {
  part: ReadonlySet<string>;
  dominator: ReadonlySet<string>;
  minimum: ReadonlySet<string>;
  segmentOf: ReadonlyMap<string, number>; // in which a vertex has got its first red pebble, from 1
}

interface BoardProps {
  graph: Graph;
  rules: Rules;
  at: Position;
  places: ReadonlyMap<string, Place>;
  selected: string; // "" for none
  culprits: readonly string[];
  marks: Marks | undefined;
  onSelect: (v: string) => void;
  onAgain: (v: string) => void; // the selected vertex is pressed once more
  onKey: (v: string, key: string) => boolean; // whether it meant something
}

export interface Frame {
  width: number;
  height: number;
  r: number; // of a vertex
  x: (p: Place) => number;
  y: (p: Place) => number;
}

const LABEL = 36; // the height of what is written under a vertex, in pixels

// Room for the vertices: as large as their neighbors allow.
export function frame(width: number, places: ReadonlyMap<string, Place>): Frame {
  const rows = Math.min(7, Math.max(2, new Set([...places.values()].map((p) => p.y.toFixed(2))).size));
  const height = Math.round(Math.min(rows * 108, Math.max(330, 84 * rows, 0.46 * innerHeight)));
  let r = 25;
  const all = [...places.values()];
  all.forEach((p, k) => all.slice(k + 1).forEach((q) => {
    const [dx, dy] = [Math.abs(p.x - q.x) * width, Math.abs(p.y - q.y) * (height - 86)];
    r = Math.min(r, Math.max(0.42 * dx, (dy - LABEL) / 2));
  }));
  r = Math.max(11, r);
  const [top, bottom, side] = [r + 13, r + LABEL, r + 6];
  return {
    width, height, r,
    x: (p) => side + p.x * (width - 2 * side),
    y: (p) => top + p.y * (height - top - bottom),
  };
}

export function Board(props: BoardProps) {
  const { graph, rules, at, places, selected, culprits, marks, onSelect, onAgain, onKey } = props;
  const { ref, width } = useWidth<HTMLDivElement>();
  const box = frame(width, places);
  const before = useRef(selected);
  const at2 = (v: string) => ({ x: box.x(places.get(v)!), y: box.y(places.get(v)!) });
  const focus = (v: string) => ref.current?.querySelector<SVGElement>(`[data-vertex="${CSS.escape(v)}"]`)?.focus();

  const key = (event: KeyboardEvent, v: string) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const to = neighbor(event.key, v, places);
    if (to) focus(to);
    if (to || onKey(v, event.key)) event.preventDefault();
  };

  return (
    <div class="pebble-board" ref={ref}>
      <svg width={box.width} height={box.height} role="group" aria-label={`Graph, ${graph.vertices.length} vertices; arrows move between them`}>
        <Arrowheads />
        {graph.vertices.flatMap((v) =>
          graph.preds.get(v)!.map((p) => (
            <Arrow key={`${p} ${v}`} from={at2(p)} to={at2(v)} r={box.r} near={v === selected || p === selected} />
          )),
        )}
        {graph.vertices.map((v) => (
          <g key={v} class={vertexClass(v, selected, culprits, marks)} transform={`translate(${at2(v).x},${at2(v).y})`}>
            <g
              role="button"
              data-vertex={v}
              tabIndex={v === (selected || graph.vertices[0]) ? 0 : -1}
              aria-label={said(inWords(graph, rules, at, v), v, marks)}
              aria-pressed={v === selected}
              onPointerDown={() => (before.current = selected)}
              onFocus={() => onSelect(v)}
              onClick={() => (before.current === v ? onAgain(v) : onSelect(v))}
              onKeyDown={(event) => key(event, v)}
            >
              <Rim graph={graph} rules={rules} at={at} v={v} r={box.r} marks={marks} />
            </g>
            <Signs graph={graph} rules={rules} at={at} v={v} r={box.r} marks={marks} />
          </g>
        ))}
      </svg>
    </div>
  );
}

const said = (words: string, v: string, marks: Marks | undefined): string =>
  [
    words,
    marks?.part.has(v) && "in the part",
    marks?.dominator.has(v) && "in the dominator",
    marks?.minimum.has(v) && "in the minimum",
  ].filter(Boolean).join("; ");

const vertexClass = (v: string, selected: string, culprits: readonly string[], marks: Marks | undefined): string =>
  [
    "vertex", v === selected && "selected", culprits.includes(v) && "culprit", marks?.part.has(v) && "in-part",
  ].filter(Boolean).join(" ");

interface VertexProps { graph: Graph; rules: Rules; at: Position; v: string; r: number; marks: Marks | undefined }

// What is pressed: the circle and its name.
function Rim({ graph, rules, at, v, r, marks }: VertexProps) {
  const ready = legal(graph, rules, at, v).some((m) => m.kind === "compute" || m.kind === "add");
  return (
    <>
      <circle class="touch" r={Math.max(r + 4, 22)} />
      {marks?.part.has(v) && <circle class="part" r={r + 6} />}
      {ready && <circle class="ready" r={r + 3} />}
      <circle class="rim" r={r} />
      {graph.outputs.has(v) && <circle class="rim inner" r={r - 3.5} />}
      <NameInSvg name={v} class="name" y={r + 14} style={{ fontSize: `${Math.max(11, Math.min(14, r * 0.62))}px` }} />
    </>
  );
}

// What is drawn upon it, which its label says in words: letters here are signs, no part of its name.
function Signs({ graph, rules, at, v, r, marks }: VertexProps) {
  const [red, blue] = [at.red.has(v), at.blue.has(v)];
  const inside = at.terms.get(v)?.size ?? 0;
  const operands = graph.preds.get(v)!.length;
  const number = marks?.segmentOf.get(v);
  const letters = [...new Set(legal(graph, rules, at, v).map((m) => KEY[m.kind]))].join(" ");
  return (
    <g class="signs" aria-hidden="true">
      {red && <Red x={blue ? -0.4 * r : 0} size={blue ? 0.5 * r : 0.68 * r} />}
      {blue && <Blue x={red ? 0.44 * r : 0} size={red ? 0.46 * r : 0.6 * r} />}
      {!red && !blue && operands > 0 && complete(graph, at, v) && <text class="gone" dy="0.34em">✓</text>}
      {inside > 0 && inside < operands && <text class="terms" y={-r - 5}>{`${inside} of ${operands}`}</text>}
      {marks?.dominator.has(v) && <Tag x={-r} y={-r + 2} text="D" />}
      {marks?.minimum.has(v) && <Tag x={-r} y={r - 4} text="m" />}
      {number !== undefined && <Tag x={r} y={-r + 2} text={String(number)} round={number} />}
      <text class="letters" y={r + 28}>{letters}</text>
    </g>
  );
}

export const Red = ({ x, size }: { x: number; size: number }) => (
  <g class="red">
    <circle cx={x} r={size} />
    <text x={x} dy="0.35em" style={{ fontSize: `${size * 1.25}px` }}>R</text>
  </g>
);

export const Blue = ({ x, size }: { x: number; size: number }) => (
  <g class="blue">
    <rect x={x - size} y={-size} width={2 * size} height={2 * size} rx={1.5} />
    <text x={x} dy="0.35em" style={{ fontSize: `${size * 1.35}px` }}>B</text>
  </g>
);

function Tag({ x, y, text, round }: { x: number; y: number; text: string; round?: number }) {
  return (
    <g class={round === undefined ? "tag" : `tag segment-${(round - 1) % 6}`} transform={`translate(${x},${y})`}>
      <rect x={-8} y={-8} width={16} height={16} rx={round === undefined ? 2 : 8} />
      <text dy="0.35em">{text}</text>
    </g>
  );
}

export const Arrowheads = () => (
  <defs>
    <marker id="pebble-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">
      <path d="M0,0.5 L7.5,4 L0,7.5 z" />
    </marker>
  </defs>
);

interface Point {
  x: number;
  y: number;
}

export function Arrow({ from, to, r, near }: { from: Point; to: Point; r: number; near: boolean }) {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const [dx, dy] = [(to.x - from.x) / length, (to.y - from.y) / length];
  return (
    <line
      class={near ? "arrow near" : "arrow"}
      x1={from.x + dx * r} y1={from.y + dy * r} x2={to.x - dx * (r + 2)} y2={to.y - dy * (r + 2)}
      marker-end="url(#pebble-arrow)"
    />
  );
}

// The nearest vertex in the direction of an arrow key.
export function neighbor(key: string, v: string, places: ReadonlyMap<string, Place>): string | undefined {
  const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[key];
  const here = places.get(v);
  if (!way || !here) return undefined;
  let best: [far: number, v: string] | undefined;
  for (const [w, p] of places) {
    const [dx, dy] = [p.x - here.x, p.y - here.y];
    const along = dx * way[0]! + dy * way[1]!;
    if (along < 0.01) continue;
    const across = Math.abs(dx * way[1]! - dy * way[0]!);
    const far = along + 2 * across + (across > 2 * along ? 9 : 0); // aside only where nothing is ahead
    if (!best || far < best[0]) best = [far, w];
  }
  return best?.[1];
}
