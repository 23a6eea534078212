// A layer's graph: operators as boxes, tensors as edges.  An edge is a button.
import { curveBasis, line } from "d3-shape";
import { useMemo, useRef, useState } from "preact/hooks";
import type { Layer } from "./data";
import { bytesOf, tensorNames, type Edge } from "./edges";
import { BOX, layout, type Place } from "./layout";
import type { Kernel, Rules } from "./rules";
import { CLASSES, short } from "./said";

// A graph that is wider than its place is drawn smaller, until its names would be hard to read.
const LEAST = 0.85;

interface Props {
  rules: Rules;
  layer: Layer;
  edges: readonly Edge[];
  kernels: readonly Kernel[];
  chosen: ReadonlySet<number>; // first operators of kernels
  onEdge: (edge: Edge) => void;
  onNode: (operator: number) => void;
  onLook: (said: string | undefined) => void;
}

const curve = line<Place>().x((p) => p.x).y((p) => p.y).curve(curveBasis);

export function GraphView({ rules, layer, edges, kernels, chosen, onEdge, onNode, onLook }: Props) {
  const { graph } = rules;
  const placed = useMemo(() => layout(graph, edges), [graph, edges]);
  const [current, setCurrent] = useState(0);
  const ref = useRef<SVGSVGElement>(null);
  const where = useMemo(() => {
    const found: Kernel[] = [];
    for (const k of kernels) for (const op of k) found[op] = k;
    return found;
  }, [kernels]);
  const fused = kernels.filter((k) => k.length > 1);
  const most = Math.max(...edges.map((e) => bytesOf(e, layer)));
  const move = (event: KeyboardEvent) => {
    const last = edges.length - 1;
    const to = { ArrowDown: current + 1, ArrowRight: current + 1, ArrowUp: current - 1, ArrowLeft: current - 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = Math.min(Math.max(to, 0), last);
    setCurrent(next);
    ref.current?.querySelector<SVGGElement>(`[data-edge="${edges[next]!.id}"]`)?.focus();
  };
  const inside = (e: Edge) => where[e.from] === where[e.to];
  const says = (e: Edge) => {
    const [a, b] = [graph.operators[e.from]!.name, graph.operators[e.to]!.name];
    const what = `${tensorNames(e, graph)}, ${short(bytesOf(e, layer), "B")}`;
    const ends = e.kind === "shared" ? `${a} and ${b} both read ${what}` : `${a} → ${b}: ${what}`;
    return inside(e) ? `${ends}; in one kernel: cut here` : `${ends}: fuse`;
  };
  return (
    <div class="wall-graph" role="region" aria-label="The graph, to scroll" tabIndex={0}>
      <svg
        ref={ref} style={{ width: `min(100%, ${placed.width}px)`, minWidth: `${LEAST * placed.width}px` }} viewBox={`0 0 ${placed.width} ${placed.height}`} role="group"
        aria-label={`${graph.operators.length} operators and ${edges.length} edges: arrows move among edges, Enter fuses the two ends, or cuts`}
        onKeyDown={move}
      >
        {fused.map((ops, k) => (
          <g key={ops.join()} class="wall-kernel" style={{ color: `var(--wall-${k % 6})` }}>
            {edges.filter((e) => inside(e) && where[e.from] === ops).map((e) => (
              <path key={e.id} d={curve(placed.paths.get(e.id)!)!} />
            ))}
            {ops.map((op) => {
              const p = placed.nodes[op]!;
              return <rect key={op} x={p.x - BOX.width / 2 - 7} y={p.y - BOX.height / 2 - 7} width={BOX.width + 14} height={BOX.height + 14} rx={12} />;
            })}
          </g>
        ))}
        {edges.map((e, k) => {
          const path = curve(placed.paths.get(e.id)!)!;
          const label = says(e);
          return (
            <g
              key={e.id} data-edge={e.id} class={`wall-edge ${e.kind}${inside(e) ? " inside" : ""}`} role="button" tabIndex={k === Math.min(current, edges.length - 1) ? 0 : -1}
              aria-label={label} aria-pressed={inside(e)}
              onClick={() => onEdge(e)}
              onKeyDown={(event) => {
                if (event.key !== "Enter" && event.key !== " ") return;
                event.preventDefault();
                onEdge(e);
              }}
              onFocus={() => (setCurrent(k), onLook(label))} onBlur={() => onLook(undefined)}
              onPointerEnter={() => onLook(label)} onPointerLeave={() => onLook(undefined)}
            >
              <path class="hit" d={path} />
              <path class="line" d={path} style={{ strokeWidth: inside(e) ? 1.5 : 1.2 + 6 * Math.sqrt(bytesOf(e, layer) / most) }} />
            </g>
          );
        })}
        {graph.operators.map((op, k) => (
          <Box key={op.name} name={op.name} of={op.class} at={placed.nodes[k]!} kernel={fused.indexOf(where[k]!)}
            chosen={chosen.has(where[k]![0]!)} onClick={() => onNode(k)} />
        ))}
      </svg>
    </div>
  );
}

interface BoxProps {
  name: string;
  of: string;
  at: Place;
  kernel: number; // among those of several operators, or -1
  chosen: boolean;
  onClick: () => void;
}

function Box({ name, of, at, kernel, chosen, onClick }: BoxProps) {
  const lines = split(name);
  return (
    <g class={`wall-box${chosen ? " chosen" : ""}`} transform={`translate(${at.x - BOX.width / 2},${at.y - BOX.height / 2})`} onClick={onClick} aria-hidden="true">
      <rect width={BOX.width} height={BOX.height} rx={6} />
      <text class={`sign wall-${of}`} x={4} y={BOX.height / 2} dy="0.35em">{CLASSES[of]?.sign ?? "◆"}</text>
      {lines.map((x, k) => (
        <text key={k} x={BOX.width / 2 + 7} y={BOX.height / 2 + (k - (lines.length - 1) / 2) * 13} dy="0.35em" text-anchor="middle">{x}</text>
      ))}
      {kernel >= 0 && (
        <g class="badge" transform={`translate(${BOX.width},0)`} style={{ color: `var(--wall-${kernel % 6})` }}>
          <circle r={9} /><text text-anchor="middle" dy="0.35em">{kernel + 1}</text>
        </g>
      )}
    </g>
  );
}

// A name on two lines, cut where they are most alike.
function split(name: string): string[] {
  const words = name.split(" ");
  if (name.length < 11 || words.length < 2) return [name];
  const cuts = words.slice(1).map((_, k) => [words.slice(0, k + 1).join(" "), words.slice(k + 1).join(" ")]);
  return cuts.reduce((a, b) => (Math.max(a[0]!.length, a[1]!.length) <= Math.max(b[0]!.length, b[1]!.length) ? a : b));
}
