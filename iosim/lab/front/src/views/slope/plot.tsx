// The chart: curves, bounds, marks, and a cursor that is dragged or moved by keys.
import { scaleLog, type ScaleLogarithmic } from "d3-scale";
import { line } from "d3-shape";
import { useMemo, useRef } from "preact/hooks";
import { AxisX, AxisY, Figure, dragging, powers, say, tenTo, useName, type Box } from "../../ui";
import { above, below, covers, least, most, nearest, solving, type Bound, type Curve, type Preset, type Reading, type SlopeData } from "./data";
import { BOUND_DASH, lookOf, ORDER_DASH, UPPER_DASH } from "./style";

type Scale = ScaleLogarithmic<number, number>;
type Point = readonly [M: number, words: number];
interface Scales { x: Scale; y: Scale; box: Box }

const MARGIN = { left: 66, right: 30, top: 30, bottom: 46 };

export interface Shown { curves: ReadonlySet<string>; bounds: ReadonlySet<string>; largest: boolean }

interface PlotProps {
  data: SlopeData;
  preset: Preset;
  klass: string;
  shown: Shown;
  M: number;
  readings: Record<string, Reading | undefined>;
  winner: string;
  bound: number; // the largest lower bound at M
  told: string; // the cursor's place, read out
  onMove: (M: number) => void;
}

export function Plot(props: PlotProps) {
  const { data, preset, klass, shown, M, readings, winner, bound, told, onMove } = props;
  const place = useRef<Scales>();
  const moveTo = (event: PointerEvent) => {
    const { x } = place.current!;
    const from = (event.currentTarget as HTMLElement).getBoundingClientRect().left;
    onMove(preset.sizes[nearest(preset, x.invert(event.clientX - from))]!);
  };
  return (
    <div class="slope-plot">
      <Figure label={`Words moved against M, N = ${say(preset.N)}, d = ${preset.d}${preset.heads > 1 ? `, ${say(preset.heads)} heads` : ""}${preset.own?.says ? `, ${preset.own.says}` : ""}; the table next to it has the numbers`} ratio={0.62} least={300} most={640} margin={MARGIN}>
        {(box) => {
          const scales = scalesOf(data, preset, box);
          place.current = scales;
          return (
            <>
              <Still data={data} preset={preset} klass={klass} shown={shown} box={box} scales={scales} />
              <Cursor data={data} shown={shown} scales={scales} M={M} readings={readings} winner={winner} bound={bound} />
            </>
          );
        }}
      </Figure>
      <div
        class="slope-cursor"
        role="slider"
        tabIndex={0}
        aria-label="Fast memory M, cursor"
        aria-valuemin={least(preset)}
        aria-valuemax={most(preset)}
        aria-valuenow={M}
        aria-valuetext={told}
        onKeyDown={(event) => {
          const to = stepped(preset, M, event.key);
          if (to === undefined) return;
          event.preventDefault();
          onMove(to);
        }}
        {...dragging(moveTo)}
      />
    </div>
  );
}

// Where a key leads: to a neighboring size, to half or twice as much, or to an end.
function stepped(preset: Preset, M: number, key: string): number | undefined {
  const to = {
    ArrowRight: below(preset, M) + 1, ArrowUp: below(preset, M) + 1,
    ArrowLeft: above(preset, M) - 1, ArrowDown: above(preset, M) - 1,
    PageUp: nearest(preset, 2 * M), PageDown: nearest(preset, M / 2),
    Home: 0, End: preset.sizes.length - 1,
  }[key];
  return to === undefined ? undefined : preset.sizes[Math.min(Math.max(to, 0), preset.sizes.length - 1)];
}

// Both axes are logarithmic; the lower end leaves room for marks under the lowest bound.
function scalesOf(data: SlopeData, preset: Preset, box: Box): Scales {
  const words = Object.values(preset.curves).flatMap((curve) => [curve.words[0]!, curve.words[curve.words.length - 1]!]);
  const floor = data.bounds.filter((b) => b.kind === "lower" && b.strength === "exact" && b.classes.length)
    .flatMap((b) => (preset.bounds[b.name] ?? []).slice(-1)).filter((x): x is number => x !== null && x > 0);
  const low = Math.min(...words, Math.max(...floor));
  // A table that is made begins without curves.
  const high = Math.max(...words, ...floor.map((x) => 4 * x));
  return {
    x: scaleLog([least(preset), most(preset)], [box.left, box.right]),
    y: scaleLog([low / 2.2, high * 1.15], [box.bottom, box.top]),
    box,
  };
}

const curvePoints = (preset: Preset, curve: Curve): Point[] =>
  curve.words.map((words, k) => [preset.sizes[curve.first + k]!, words]);

function boundPoints(preset: Preset, bound: Bound): Point[] {
  return (preset.bounds[bound.name] ?? []).flatMap((words, k): Point[] => (words ? [[preset.sizes[k]!, words]] : []));
}

// The largest lower bound of a class at every size.
function largestPoints(data: SlopeData, preset: Preset, klass: string): Point[] {
  const of = data.bounds.filter((b) => covers(b, klass));
  return preset.sizes.map((M, k) => [M, Math.max(...of.map((b) => preset.bounds[b.name]?.[k] ?? 0))]);
}

interface StillProps { data: SlopeData; preset: Preset; klass: string; shown: Shown; box: Box; scales: Scales }

// What does not move with the cursor, drawn once.
function Still({ data, preset, klass, shown, box, scales }: StillProps) {
  const clip = useName();
  return useMemo(() => {
    const { x, y } = scales;
    const path = (points: readonly Point[]) => line<Point>((p) => x(p[0]), (p) => y(p[1]))(points as Point[]) ?? "";
    const largest = largestPoints(data, preset, klass);
    const beside = data.bounds.filter((b) => shown.bounds.has(b.name));
    return (
      <>
        <clipPath id={clip}>
          <rect x={box.left} y={box.top} width={box.right - box.left} height={box.bottom - box.top} />
        </clipPath>
        <AxisX scale={x} box={box} label="fast memory M (words)" ticks={powers(4, x, box.width / 72)} format={say} />
        <AxisY scale={y} box={box} label="words moved in the model, loads + stores" ticks={powers(10, y, 12)} format={tenTo} />
        <Sides preset={preset} scales={scales} />
        {preset.marks.map((mark, k) => (
          <MarkLine
            key={mark.name} name={mark.name} M={mark.M} scales={scales}
            above={preset.marks.slice(0, k).filter((x) => Math.abs(scales.x(x.M) - scales.x(mark.M)) < NAME_WIDTH).length}
          />
        ))}
        <g clip-path={`url(#${clip})`} fill="none">
          {shown.largest && (
            <g data-line="largest lower bound">
              <path class="slope-under" d={`${path(largest)}L${box.right},${box.bottom}L${box.left},${box.bottom}Z`} />
              <path class="slope-bound" stroke-dasharray={BOUND_DASH} d={path(largest)} />
            </g>
          )}
          {beside.map((bound) => (
            <path
              key={bound.name}
              data-line={bound.name}
              class={bound.kind === "upper" ? "slope-upper" : "slope-lower"}
              stroke-dasharray={bound.strength === "asymptotic" ? ORDER_DASH : bound.kind === "upper" ? UPPER_DASH : BOUND_DASH}
              d={path(boundPoints(preset, bound))}
            />
          ))}
          {solving(data, preset).map(({ name, k }) => shown.curves.has(name) && preset.curves[name] && (
            <Line key={name} name={name} k={k} preset={preset} path={path} scales={scales} />
          ))}
        </g>
      </>
    );
  }, [data, preset, klass, shown, box.width, box.height]);
}

interface LineProps { name: string; k: number; preset: Preset; path: (points: readonly Point[]) => string; scales: Scales }

// A schedule's curve; its signs are at recorded runs, or now and then where there are none.
function Line({ name, k, preset, path, scales: { x, y } }: LineProps) {
  const points = curvePoints(preset, preset.curves[name]!);
  const run = preset.runs[name];
  const signs = run ? run.M.map((M, j): Point => [M, run.words[j]!]) : points.filter((_, j) => j % 21 === (3 * k) % 21);
  const look = lookOf(k);
  return (
    <g data-line={name} stroke={look.color}>
      <path class="slope-curve" d={path(points)} stroke-dasharray={look.dash} />
      {signs.map(([M, words]) => (
        <path key={M} d={look.sign} transform={`translate(${x(M)},${y(words)})`} fill={look.color} />
      ))}
    </g>
  );
}

const [LONG, SHORT] = [170, 80]; // room that a sentence takes, and what is said in short

// Where schedules that store the scores win, and where those that don't.
function Sides({ preset, scales: { x, box } }: { preset: Preset; scales: Scales }) {
  const at = x(preset.crossover.first);
  const said = (long: string, short: string, room: number) => (room > LONG ? long : room > SHORT ? short : "");
  return (
    <g class="slope-sides">
      <rect x={box.left} width={at - box.left} y={4} height={20} class="stored" />
      <rect x={at} width={box.right - at} y={4} height={20} class="kept" />
      <line x1={at} x2={at} y1={4} y2={box.top} />
      <text x={at - 8} y={18} text-anchor="end">{said("storing the scores wins", "scores stored", at - box.left)}</text>
      <text x={at + 8} y={18}>{said("never storing them wins", "not stored", box.right - at)}</text>
    </g>
  );
}

const NAME_WIDTH = 30; // of a mark's name, which stands above another one's where they would meet

function MarkLine({ name, M, scales: { x, box }, above }: { name: string; M: number; scales: Scales; above: number }) {
  return (
    <g class="slope-mark" transform={`translate(${x(M)},0)`}>
      <line y1={box.top} y2={box.bottom} />
      <text x={5} y={box.bottom - 7 - 16 * above}>{name}</text>
    </g>
  );
}

interface CursorProps {
  data: SlopeData;
  shown: Shown;
  scales: Scales;
  M: number;
  readings: Record<string, Reading | undefined>;
  winner: string;
  bound: number;
}

function Cursor({ data, shown, scales: { x, y, box }, M, readings, winner, bound }: CursorProps) {
  return (
    <g class="slope-now" transform={`translate(${x(M)},0)`}>
      <line y1={box.top} y2={box.bottom} />
      <circle class="handle" cy={box.bottom} r={7} />
      {shown.largest && bound > 0 && <circle class="floor" cy={y(bound)} r={4.5} />}
      {data.schedules.map(({ name }, k) => {
        const here = readings[name];
        if (!here || !shown.curves.has(name)) return null;
        const at = y(Number(here.words));
        return (
          <g key={name}>
            {name === winner && <circle class="winner" cy={at} r={10} />}
            <circle cy={at} r={5} fill={lookOf(k).color} />
          </g>
        );
      })}
    </g>
  );
}
