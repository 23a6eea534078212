// The tensors in slow memory, each with its counters.
import { format } from "d3-format";
import { useEffect, useRef } from "preact/hooks";
import { colorOf, say, signOf } from "../../ui";
import { draw } from "./draw";
import type { Panel, Shown, Way } from "./panels";

interface MatricesProps {
  name: string; // of what is watched
  panels: readonly Panel[];
  show: (panel: Panel) => Shown;
  counted: (way: Way, tensor: string) => number | null; // words so far; null where none are moved that way
  moment: unknown; // another one is drawn again
  theme: string; // what colors are drawn in
  holds: boolean; // whether it is known what is in fast memory
}

export function Matrices({ name, panels, holds, ...rest }: MatricesProps) {
  return (
    <section class="slow" aria-label={`Slow memory of ${name}`}>
      <p class="head">
        <strong>Slow memory</strong>
        <span class="shade"><i class="visited" /> visited before, in the order of the line</span>
        {holds && <span class="shade"><i class="held" /> a copy is in fast memory</span>}
        <span class="shade"><i class="moved" /> moved now</span>
      </p>
      <div class="matrices">
        {panels.map((x) => <Matrix key={x.tensor.name} panel={x} {...rest} />)}
      </div>
    </section>
  );
}

interface MatrixProps extends Pick<MatricesProps, "show" | "counted" | "moment" | "theme"> {
  panel: Panel;
}

function Matrix({ panel, show, counted, moment, theme }: MatrixProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { name } = panel.tensor;
  const now = show(panel);
  useEffect(() => {
    if (canvas.current) draw(canvas.current, panel, now);
  }, [moment, panel, theme]);
  const size = panel.extents.reduce((a, b) => a * b, 1);
  const lead = leadText(panel, now);
  return (
    <figure class={now.moving.length > 0 ? "matrix moving" : "matrix"}>
      <figcaption>
        <span class="sign" aria-hidden="true" style={{ color: colorOf(name) }}>{signOf(name)}</span>{" "}
        <strong>{name}</strong> <span class="shape">{shapeOf(panel)}</span>
      </figcaption>
      <canvas
        ref={canvas}
        role="img"
        aria-label={described(panel, now)}
        style={{ width: `${panel.width}px`, height: `${panel.height}px`, color: colorOf(name) }}
      />
      {lead && <p class="lead">{lead}</p>}
      <p class="amounts">
        {WAYS.map((way) => {
          const words = counted(way, name);
          return words !== null && <Counter key={way} way={way} name={name} words={words} size={size} now={now.way === way} />;
        })}
      </p>
    </figure>
  );
}

const WAYS: readonly Way[] = ["load", "store", "atomic"];
const SIGN = { load: "↓", store: "↑", atomic: "↕" } as const;
const DONE = { load: "loaded", store: "stored", atomic: "read and written" } as const;
const DOING = { load: "loading", store: "storing", atomic: "reading and writing" } as const;

const TIMES = format(",.2~f");

// What moves now is marked on its counter: a word more beside it would push the next matrix aside.
function Counter({ way, name, words, size, now }: { way: Way; name: string; words: number; size: number; now: boolean }) {
  return (
    <span class={now ? "now-moved" : undefined} title={`words ${DONE[way]}: ${TIMES(words / size)} times the tensor`}>
      {SIGN[way]} <span data-counter={`${way} ${name}`}>{say(words)}</span>{" "}
      <span class="times">{TIMES(words / size)}×</span>
    </span>
  );
}

function shapeOf({ rows, columns, extents }: Panel): string {
  const sizes = [rows, columns].filter((k) => k >= 0).map((k) => say(extents[k]!));
  return sizes.join(" × ") || "1";
}

// “h 2 of 8”, of the axes of which one position at a time is shown.
function leadText({ tensor, lead, extents }: Panel, now: Shown): string {
  return lead
    .flatMap((k, n) => {
      if (extents[k] === 1) return [];
      const [start, stop] = now.lead[n]!;
      const of = `of ${say(extents[k]!)}`;
      if (start < 0) return `${tensor.axes[k]}: one ${of}, as the table says`;
      return stop - start > 1 ? `${tensor.axes[k]} ${start + 1} to ${stop} ${of}` : `${tensor.axes[k]} ${start + 1} ${of}`;
    })
    .join(", ");
}

function described(panel: Panel, now: Shown): string {
  const { name } = panel.tensor;
  const [first, ...more] = now.moving;
  const where = first && now.way
    ? `${DOING[now.way]} ${ranges(panel, first)}${more.length > 0 ? ` and ${say(more.length)} more` : ""}`
    : "nothing is moved";
  const held = now.held.length ? `; in fast memory ${now.held.map((x) => ranges(panel, x)).join(" and ")}` : "";
  return `${name}, ${shapeOf(panel)}: ${where}${held}`;
}

const ranges = (panel: Panel, tile: readonly (readonly [number, number])[]): string =>
  [panel.rows, panel.columns]
    .filter((k) => k >= 0)
    .map((k) => `${panel.tensor.axes[k]} ${say(tile[k]![0])} to ${say(tile[k]![1] - 1)}`)
    .join(", ");
