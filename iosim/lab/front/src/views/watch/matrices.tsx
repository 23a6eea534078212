// The tensors in slow memory, each with its counters.
import { format } from "d3-format";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { colorOf, say, signOf } from "../../ui";
import { draw } from "./draw";
import { panels, shown, type Panel, type Shown } from "./panels";
import type { Side } from "./setup";
import type { Moment } from "./timeline";

interface MatricesProps {
  side: Side;
  moment: Moment;
  height: number; // of the longest axis, in pixels
  theme: string; // what colors are drawn in
}

export function Matrices({ side, moment, height, theme }: MatricesProps) {
  const all = useMemo(() => panels(side, height), [side, height]);
  return (
    <section class="slow" aria-label={`Slow memory of ${side.schedule.name}`}>
      <p class="head">
        <strong>Slow memory</strong>
        <span class="shade"><i class="visited" /> visited before, in the order of the line</span>
        <span class="shade"><i class="held" /> a copy is in fast memory</span>
        <span class="shade"><i class="moved" /> moved now</span>
      </p>
      <div class="matrices">
        {all.map((x) => <Matrix key={x.tensor.name} side={side} moment={moment} panel={x} theme={theme} />)}
      </div>
    </section>
  );
}

function Matrix({ side, moment, panel, theme }: { side: Side; moment: Moment; panel: Panel; theme: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { name } = panel.tensor;
  const now = shown(side, moment, panel);
  useEffect(() => {
    if (canvas.current) draw(canvas.current, panel, now);
  }, [moment, panel, theme]);
  const counted = (way: string) => {
    const key = side.timeline.keys.indexOf(`${way} ${name}`);
    return key < 0 ? null : moment.words[key]!;
  };
  const size = panel.extents.reduce((a, b) => a * b, 1);
  const [loaded, stored] = [counted("load"), counted("store")];
  const lead = leadText(panel, now);
  return (
    <figure class={now.moving ? "matrix moving" : "matrix"}>
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
        {loaded !== null && <Counter way="load" name={name} words={loaded} size={size} now={now.moving !== undefined && now.way === "load"} />}
        {stored !== null && <Counter way="store" name={name} words={stored} size={size} now={now.moving !== undefined && now.way === "store"} />}
      </p>
    </figure>
  );
}

const TIMES = format(",.2~f");

// What moves now is marked on its counter: a word more beside it would push the next matrix aside.
function Counter({ way, name, words, size, now }: { way: "load" | "store"; name: string; words: number; size: number; now: boolean }) {
  return (
    <span class={now ? "now-moved" : undefined} title={`words ${way === "load" ? "loaded" : "stored"}: ${TIMES(words / size)} times the tensor`}>
      {way === "load" ? "↓" : "↑"} <span data-counter={`${way} ${name}`}>{say(words)}</span>{" "}
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
  const where = now.moving
    ? `${now.way === "load" ? "loading" : "storing"} ${ranges(panel, now.moving)}`
    : "nothing is moved";
  const held = now.held.length ? `; in fast memory ${now.held.map((x) => ranges(panel, x)).join(" and ")}` : "";
  return `${name}, ${shapeOf(panel)}: ${where}${held}`;
}

const ranges = (panel: Panel, tile: readonly (readonly [number, number])[]): string =>
  [panel.rows, panel.columns]
    .filter((k) => k >= 0)
    .map((k) => `${panel.tensor.axes[k]} ${say(tile[k]![0])} to ${say(tile[k]![1] - 1)}`)
    .join(", ");
