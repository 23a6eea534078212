// Drawing a graph: by pointer, by keyboard, or as lines of text.
import { useRef, useState } from "preact/hooks";
import { Button, Select, useWidth } from "../../ui";
import { Arrow, Arrowheads, frame, neighbor } from "./board";
import {
  addEdge, addVertex, type Drawing, EMPTY, freeName, fromText, graphFrom, layout, moveVertex, type Place, Refused, removeEdge,
  removeVertex, toText,
} from "./drawing";

interface DrawProps {
  drawing: Drawing;
  onChange: (drawing: Drawing) => void;
}

const clamp = (x: number) => Math.min(1, Math.max(0, x));
const NUDGE = 0.05; // of the width, by Shift and an arrow key

export function Draw({ drawing, onChange }: DrawProps) {
  const { ref, width } = useWidth<HTMLDivElement>();
  const [selected, select] = useState(drawing.places.keys().next().value ?? "");
  const [joining, join] = useState<string>(); // whose edge is being drawn
  const [wrong, complain] = useState("");
  const dragged = useRef<{ v: string; x: number; y: number; moved: boolean }>();
  const box = { ...frame(width, new Map()), r: 20, height: 380 };
  const side = box.r + 6;
  const place = ({ x, y }: Place) => ({ x: side + x * (width - 2 * side), y: side + y * (box.height - 2 * side - 18) });
  const unplace = (x: number, y: number): Place => ({ x: clamp((x - side) / (width - 2 * side)), y: clamp((y - side) / (box.height - 2 * side - 18)) });

  const attempt = (change: () => Drawing) => {
    try {
      onChange(change());
      complain("");
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      complain(error.message);
    }
  };
  const create = (at: Place) => attempt(() => {
    const name = freeName(drawing);
    const next = addVertex(drawing, at, name);
    select(name);
    return next;
  });
  const connect = (from: string, to: string) => {
    join(undefined);
    attempt(() => addEdge(drawing, [from, to]));
  };
  const press = (v: string) => {
    if (joining !== undefined && joining !== v) connect(joining, v);
    else join(joining === v ? undefined : v);
    select(v);
  };
  const remove = (v: string) => {
    onChange(removeVertex(drawing, v));
    join(undefined);
    select([...drawing.places.keys()].find((w) => w !== v) ?? "");
    complain("");
  };
  const focus = (v: string) => ref.current?.querySelector<SVGElement>(`[data-vertex="${CSS.escape(v)}"]`)?.focus();
  const key = (event: KeyboardEvent, v: string) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const arrow = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    const at = drawing.places.get(v)!;
    if (arrow && event.shiftKey) onChange(moveVertex(drawing, v, { x: clamp(at.x + arrow[0]! * NUDGE), y: clamp(at.y + arrow[1]! * NUDGE) }));
    else if (arrow) focus(neighbor(event.key, v, drawing.places) ?? v);
    else if (event.key === "Enter" || event.key === " ") press(v);
    else if (event.key === "n") create({ x: clamp(at.x + 0.12), y: clamp(at.y + 0.2) });
    else if (event.key === "Delete" || event.key === "Backspace" || event.key === "d") remove(v);
    else if (event.key === "Escape") join(undefined);
    else return;
    event.preventDefault();
  };
  const at = (event: PointerEvent) => {
    const area = (event.currentTarget as Element).closest("svg")!.getBoundingClientRect();
    return unplace(event.clientX - area.left, event.clientY - area.top);
  };

  return (
    <div class="pebble-draw">
      <div class="table">
        <p class="hint">
          {joining === undefined
            ? "Click an empty place to add a vertex. Click a vertex, then another: an edge from operand to result. Drag to move."
            : `An edge from ${joining}: choose its result, or ${joining} again to cancel.`}
        </p>
        <div class="pebble-board ground" ref={ref}>
          <svg
            width={width} height={box.height} role="group"
            aria-label={`Drawing of ${drawing.places.size} vertices. Enter begins an edge and ends it; N adds a vertex, Delete removes one; Shift and arrows move it`}
            onClick={(e) => e.target === e.currentTarget && create(at(e as unknown as PointerEvent))}
          >
            <Arrowheads />
            {drawing.edges.map(([a, b]) => (
              <Arrow key={`${a} ${b}`} from={place(drawing.places.get(a)!)} to={place(drawing.places.get(b)!)} r={box.r} near={a === selected || b === selected} />
            ))}
            {[...drawing.places].map(([v, p]) => (
              <g
                key={v}
                class={["vertex", v === selected && "selected", v === joining && "joining"].filter(Boolean).join(" ")}
                transform={`translate(${place(p).x},${place(p).y})`}
                role="button" data-vertex={v} tabIndex={v === selected ? 0 : -1}
                aria-label={said(drawing, v)} aria-pressed={v === joining}
                onFocus={() => select(v)}
                onKeyDown={(e) => key(e, v)}
                onPointerDown={(e) => {
                  dragged.current = { v, x: e.clientX, y: e.clientY, moved: false };
                  e.currentTarget.setPointerCapture(e.pointerId);
                }}
                onPointerMove={(e) => {
                  const drag = dragged.current;
                  if (!drag || drag.v !== v) return;
                  drag.moved ||= Math.hypot(e.clientX - drag.x, e.clientY - drag.y) > 5;
                  if (drag.moved) onChange(moveVertex(drawing, v, at(e)));
                }}
                onPointerUp={() => {
                  const drag = dragged.current;
                  dragged.current = undefined;
                  if (drag && !drag.moved) press(v);
                }}
              >
                <circle class="touch" r={26} />
                <circle class="rim" r={box.r} />
                <text class="inside" dy="0.35em">{v}</text>
              </g>
            ))}
          </svg>
        </div>
        <p class="wrong" role="alert">{wrong}</p>
      </div>
      <aside>
        <div class="buttons" role="group" aria-label="Drawing">
          <Button onClick={() => create(free(drawing))}>Add a vertex</Button>
          <Button onClick={() => drawing.places.size && onChange({ ...drawing, places: layout(graphFrom(drawing)) })}>Arrange</Button>
          <Button onClick={() => { onChange(EMPTY); select(""); join(undefined); complain(""); }}>Clear</Button>
        </div>
        {drawing.places.has(selected) && (
          <div class="buttons" role="group" aria-label={`Vertex ${selected}`}>
            <b>{selected}</b>
            <Button onClick={() => remove(selected)}>Delete {selected}</Button>
            <Select
              label={`Edge from ${selected} to`} value="" onChange={(to) => to && connect(selected, to)}
              options={[{ value: "", label: "…" }, ...[...drawing.places.keys()].filter((v) => v !== selected)]}
            />
            {drawing.edges.filter((e) => e.includes(selected)).map(([a, b]) => (
              <Button key={`${a} ${b}`} label={`Remove the edge from ${a} to ${b}`} onClick={() => onChange(removeEdge(drawing, [a, b]))}>
                {a} → {b} ✕
              </Button>
            ))}
          </div>
        )}
        <Lines drawing={drawing} onChange={(next) => { onChange(next); select(next.places.keys().next().value ?? ""); complain(""); }} />
      </aside>
    </div>
  );
}

// Somewhere where no vertex is near.
function free({ places }: Drawing): Place {
  let best = { x: 0.5, y: 0.5, far: -1 };
  for (let i = 0; i <= 8; i++) {
    for (let j = 0; j <= 4; j++) {
      const at = { x: i / 8, y: j / 4 };
      const far = Math.min(1, ...[...places.values()].map((p) => Math.hypot(p.x - at.x, p.y - at.y)));
      if (far > best.far) best = { ...at, far };
    }
  }
  return best;
}

function said({ edges }: Drawing, v: string): string {
  const operands = edges.filter(([, b]) => b === v).map(([a]) => a);
  const users = edges.filter(([a]) => a === v).map(([, b]) => b);
  return [v, operands.length ? `operands ${operands.join(" ")}` : "input", users.length ? `used by ${users.join(" ")}` : "output"].join("; ");
}

// The same graph as text: what `iosim optimal --graph` reads.
function Lines({ drawing, onChange }: DrawProps) {
  const [typed, setTyped] = useState<string>();
  const [wrong, complain] = useState("");
  return (
    <div class="lines">
      <label for="pebble-lines">As text, “operand result” on each line; a name alone is a vertex</label>
      <textarea
        id="pebble-lines" rows={8} spellcheck={false} value={typed ?? toText(drawing)}
        aria-invalid={wrong !== ""} aria-describedby="pebble-lines-says"
        onBlur={() => wrong === "" && setTyped(undefined)}
        onInput={(e) => {
          const text = e.currentTarget.value;
          setTyped(text);
          try {
            const next = fromText(text);
            complain("");
            onChange(next);
          } catch (error) {
            if (!(error instanceof Refused)) throw error;
            complain(error.message);
          }
        }}
      />
      <span id="pebble-lines-says" class="wrong" role={wrong ? "alert" : undefined}>{wrong}</span>
    </div>
  );
}
