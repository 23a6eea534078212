// Kernels under a machine's roof: FLOP per byte at L2↔DRAM against FLOP/s, and what is under the ridge.
import { scaleLog } from "d3-scale";
import { useState } from "preact/hooks";
import { AxisX, AxisY, Figure, Table, useName, type Box } from "../../ui";
import { L2_DRAM, type Machine } from "./data";
import type { Cost } from "./rules";
import { CLASSES, digits, micro, percent, short } from "./said";

export interface Item {
  name: string;
  short: string; // beside its point
  class: string;
  cost: Cost;
}

interface Props {
  items: readonly Item[];
  machine: Machine;
  machines: readonly Machine[];
  of: string; // "operators" or "kernels"
  range: { x: [number, number]; y: [number, number] };
}

const speed = (machine: Machine, name: string) => machine.limits.find((x) => x.name === name)?.per_s;

export function Roofline({ items, machine, machines, of, range }: Props) {
  const [marked, mark] = useState<string>();
  const time = items.reduce((sum, x) => sum + x.cost.seconds, 0);
  const flop = items.reduce((sum, x) => sum + x.cost.flop, 0);
  const sorted = [...items].sort((a, b) => a.cost.intensity - b.cost.intensity);
  const under = sorted.filter((x) => x.cost.intensity < machine.ridge);
  const over = sorted.filter((x) => x.cost.intensity >= machine.ridge);
  const shares = (some: Item[]) => ({
    flop: some.reduce((sum, x) => sum + x.cost.flop, 0) / flop,
    time: some.reduce((sum, x) => sum + x.cost.seconds, 0) / time,
  });
  const share = shares(under);
  const rows = (some: Item[]) =>
    some.map((x) => [
      <button type="button" class="plain" aria-pressed={marked === x.name} onClick={() => mark(marked === x.name ? undefined : x.name)}>
        <Sign of={x.class} /> {x.name}
      </button>,
      x.cost.flop,
      x.cost.bytes[L2_DRAM] ?? 0,
      <span class="right">{digits(x.cost.intensity)}</span>,
      <span class="right">{micro(x.cost.seconds)}</span>,
      <span class="right">{percent(x.cost.seconds / time)}</span>,
      `${x.cost.bound}: ${x.cost.limit}`,
    ]);
  const columns = [of.slice(0, -1), "flop", "bytes, L2↔DRAM", "FLOP/B", "least µs", "of the time", "set by"];
  return (
    <section aria-label="Roofline" class="wall-roof">
      <p class="wall-says" aria-live="polite" id="wall-sentence">
        On {article(machine.title)} <strong>{under.length} of {items.length} {of}</strong> fall under the ridge
        of <strong>{digits(machine.ridge)} FLOP per byte</strong> at L2↔DRAM: they do {percent(share.flop)} of the
        flop and take <strong>{percent(share.time)} of the least time</strong>.
      </p>
      <Figure
        label={`Roofline of ${machine.title} at L2↔DRAM: ${under.length} of ${items.length} ${of} are left of the ridge of ${digits(machine.ridge)} FLOP per byte. The tables below list them.`}
        ratio={0.3} least={300} most={520} margin={{ left: 78, right: 14, top: 24, bottom: 46 }}
      >
        {(box) => <Plot {...{ box, items, machine, machines, of, range, time, marked, mark }} />}
      </Figure>
      <Legend marked={items.find((x) => x.name === marked)} />
      <div class="wall-lists">
        <Table caption={`Under the ridge: ${under.length} ${of}; bandwidth at L2↔DRAM, or launches, hold them back`} columns={columns} rows={rows(under)} />
        <Table caption={`At or over the ridge: ${over.length} ${of}`} columns={columns} rows={rows(over)} />
      </div>
    </section>
  );
}

const article = (title: string) => (/^[AEIOH]\d*/.test(title) ? `an ${title}` : `a ${title}`);

function Sign({ of }: { of: string }) {
  return <span aria-hidden="true" class={`wall-${of}`}>{CLASSES[of]?.sign ?? "◆"}</span>;
}

function Legend({ marked }: { marked: Item | undefined }) {
  return (
    <ul class="legend" aria-label="Classes">
      {Object.entries(CLASSES).map(([name, x]) => (
        <li key={name}><Sign of={name} /> {x.says}</li>
      ))}
      <li>larger: more of the least time</li>
      {marked && (
        <li><strong>{marked.name}</strong>: {digits(marked.cost.intensity)} FLOP/B at L2↔DRAM, {micro(marked.cost.seconds)} µs, {marked.cost.bound}: {marked.cost.limit}</li>
      )}
    </ul>
  );
}

interface PlotProps extends Props {
  box: Box;
  time: number;
  marked: string | undefined;
  mark: (name: string | undefined) => void;
}

function Plot({ box, items, machine, machines, of, range, time, marked, mark }: PlotProps) {
  const clip = useName();
  const x = scaleLog(range.x, [box.left, box.right]);
  const y = scaleLog(range.y, [box.bottom, box.top]);
  const powers = (scale: { domain(): number[] }, every: number) => {
    const [low, high] = scale.domain().map((v) => Math.log10(v)) as [number, number];
    const found = [];
    for (let k = Math.ceil(low); k <= high; k += every) found.push(10 ** k);
    return found;
  };
  const roof = (m: Machine) => {
    const peak = speed(m, "matrix units")!;
    return `M${x(range.x[0])},${y(range.x[0] * speed(m, L2_DRAM)!)}L${x(m.ridge)},${y(peak)}H${box.right}`;
  };
  const vector = speed(machine, "vector units");
  const ridge = x(machine.ridge);
  const narrow = box.width < NARROW;
  // What the labels of points keep clear of: those of the units.
  const taken = (vector && !narrow ? [y(vector) - 6] : []).map((at) => ({ left: box.right - 190, right: box.right, y: at }));
  const points = marks(together(items), of, time, (i) => [x(i.cost.intensity), y(i.cost.flop / i.cost.seconds)], box, taken);
  const bandwidth = `L2↔DRAM ${short(speed(machine, L2_DRAM)!, "B/s")}`;
  const start: [number, number] = [box.left + 14, y(x.invert(box.left + 14) * speed(machine, L2_DRAM)!)];
  return (
    <>
      <defs><clipPath id={clip}><rect x={box.left} y={box.top} width={box.right - box.left} height={box.bottom - box.top} /></clipPath></defs>
      <rect class="wall-under" x={box.left} y={box.top} width={Math.max(0, ridge - box.left)} height={box.bottom - box.top} />
      <AxisX scale={x} box={box} ticks={powers(x, 1)} format={(v) => (v < 1e4 ? digits(v) : short(v, ""))} label="FLOP per byte at L2↔DRAM" />
      <AxisY scale={y} box={box} ticks={powers(y, 1)} format={(v) => short(v, "")} label="FLOP/s at the least time" />
      <g clip-path={`url(#${clip})`}>
        {machines.map((m) => m !== machine && <path key={m.name} class="wall-other" d={roof(m)} />)}
        {vector && <path class="wall-vector" d={`M${x(vector / speed(machine, L2_DRAM)!)},${y(vector)}H${box.right}`} />}
        <path class="wall-roofline" d={roof(machine)} />
        <line class="wall-ridge" x1={ridge} x2={ridge} y1={box.top} y2={box.bottom} />
      </g>
      {!narrow && <text class="wall-label" x={ridge - 8} y={box.top - 8} text-anchor="end">◂ under the ridge</text>}
      <text class="wall-label strong" x={Math.min(ridge + 2, box.right - 140)} y={box.top - 8} id="wall-ridge" data-ridge={machine.ridge}>
        ridge {digits(machine.ridge)} FLOP/B
      </text>
      <text class="wall-label" x={box.right - 4} y={y(speed(machine, "matrix units")!) - 14} text-anchor="end">
        matrix units {short(speed(machine, "matrix units")!, "FLOP/s")}
      </text>
      {vector && !narrow && (
        <text class="wall-label" x={box.right - 4} y={y(vector) - 6} text-anchor="end">vector units {short(vector, "FLOP/s")}</text>
      )}
      <text
        class="wall-label" id="wall-bandwidth"
        transform={`translate(${start[0]},${start[1] - above(points, start, slope(x, y), 7 * bandwidth.length)}) rotate(${slope(x, y)})`}
      >
        {bandwidth}
      </text>
      {points.map((m) => (
        <Point key={m.names[0]} {...m} marked={m.names.includes(marked ?? "")} mark={(on) => mark(on ? m.names[0] : undefined)} />
      ))}
    </>
  );
}

// Degrees by which a line of slope one leans in a plot with two logarithmic axes.
function slope(x: (v: number) => number, y: (v: number) => number): number {
  return (Math.atan2(y(10) - y(1), x(10) - x(1)) * 180) / Math.PI;
}

// How far above its start a text of a width, along a line that leans by so many degrees, is clear of the points.
function above(points: Mark[], start: [number, number], degrees: number, wide: number): number {
  const [c, s] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)];
  const needed = points.map(({ at, size }) => {
    const [dx, dy] = [at[0] - start[0], at[1] - start[1]];
    const [along, over] = [dx * c + dy * s, dx * s - dy * c];
    // Lifted, the text is further along by about as much.
    return along > -size && along < wide + 2.5 * size ? over + 1.2 * size + 5 : 0;
  });
  return Math.max(8, ...needed.map((n) => n / c));
}

// Of the least time: what takes as much has a label.
const TOLD = 0.03;
// Pixels: a plot that is narrower has fewer labels.
const NARROW = 560;

// Items of a class that are at one place.
function together(items: readonly Item[]): Item[][] {
  const found = new Map<string, Item[]>();
  for (const i of items) {
    if (!i.cost.flop || !Number.isFinite(i.cost.intensity)) continue;
    const id = [i.class, i.cost.intensity.toPrecision(2), (i.cost.flop / i.cost.seconds).toPrecision(2)].join();
    found.set(id, [...(found.get(id) ?? []), i]);
  }
  return [...found.values()];
}

interface Mark {
  names: string[];
  class: string;
  at: [number, number];
  size: number;
  label?: { text: string; at: [number, number]; anchor: "start" | "end" };
  title: string;
}

// Sizes by share of the time; labels beside what has most of it, each below those that it would cover.
function marks(
  groups: Item[][], of: string, time: number, place: (i: Item) => [number, number], box: Box, taken: { left: number; right: number; y: number }[],
): Mark[] {
  const told = box.width < NARROW ? 4 * TOLD : TOLD;
  return groups
    .map((some) => ({ some, share: some.reduce((sum, i) => sum + i.cost.seconds, 0) / time }))
    .sort((a, b) => b.share - a.share)
    .map(({ some, share }) => {
      const { short: name, class: klass, cost } = some[0]!;
      const at = place(some[0]!);
      const size = 4 + 18 * Math.sqrt(share);
      const names = some.map((i) => i.name);
      const title = `${names.join(", ")}: ${digits(cost.intensity)} FLOP/B at L2↔DRAM, ${percent(share)} of the least time`;
      if (share < told) return { names, class: klass, at, size, title };
      const text = `${some.length > 1 ? `${some.length} ${of}` : name}, ${percent(share)}`;
      const wide = 7 * text.length;
      const after = at[0] + size * 0.7 + 5;
      const anchor = after + wide < box.right ? "start" : "end";
      const left = anchor === "start" ? after : at[0] - size * 0.7 - 5 - wide;
      let down = at[1] + size * 0.7 + 14;
      while (taken.some((t) => t.left < left + wide && left < t.right && Math.abs(t.y - down) < 14)) down += 15;
      taken.push({ left, right: left + wide, y: down });
      return { names, class: klass, at, size, title, label: { text, at: [anchor === "start" ? left : left + wide, down], anchor } };
    });
}

interface PointProps extends Mark {
  marked: boolean;
  mark: (on: boolean) => void;
}

function Point({ class: klass, at: [x, y], size: r, label, title, marked, mark }: PointProps) {
  const shape =
    klass === "contraction" ? <circle cx={x} cy={y} r={r} />
    : klass === "normalisation" ? <rect x={x - r * 0.88} y={y - r * 0.88} width={r * 1.76} height={r * 1.76} />
    : <path d={`M${x},${y - r * 1.1}L${x + r},${y + r * 0.75}H${x - r}Z`} />;
  return (
    <g class={`wall-point wall-${klass}${marked ? " marked" : ""}`} onPointerEnter={() => mark(true)} onPointerLeave={() => mark(false)}>
      {shape}
      {label && <text x={label.at[0]} y={label.at[1]} text-anchor={label.anchor}>{label.text}</text>}
      <title>{title}</title>
    </g>
  );
}
