// One column of a table against another, on logarithmic axes with the line of equality.
import { format } from "d3-format";
import { scaleLog } from "d3-scale";
import { AxisX, AxisY, Figure, say, type Box } from "../../ui";
import type { Points, Series } from "./data";
import type { Row, Value } from "./packed";

interface ScatterProps {
  points: Points;
  rows: readonly Row[];
  shown: readonly number[];
  chosen: number | undefined;
  onChoose: (row: number) => void;
}

interface Dot {
  row: number;
  x: number;
  y: number;
}

const SHORT = format("~s");
const MARKS = [
  { name: "first", sign: "●" },
  { name: "second", sign: "□" },
  { name: "third", sign: "△" },
] as const;

export function Scatter({ points, rows, shown, chosen, onChoose }: ScatterProps) {
  const series = points.series.map((one) => ({ one, dots: dotsOf(one, rows, shown) }));
  const all = series.flatMap(({ dots }) => dots);
  const ends = all.flatMap(({ x, y }) => [x, y]);
  for (const { one, dots } of series)
    if (one.bars) for (const { row } of dots) ends.push(...one.bars.map((x) => Number(rows[row]![x])).filter((x) => x > 0));
  if (!all.length) return <p>No row shown has both numbers of this scatter.</p>;
  const domain = [Math.min(...ends) / 1.4, Math.max(...ends) * 1.4] as const;
  const equal = all.filter(({ x, y }) => x === y).length;
  const said = `${points.says}: ${say(all.length)} points, ${say(equal)} of them exactly on the diagonal`;
  const tick = (x: number) => `${SHORT(x)}${points.unit === "bytes" ? "B" : ""}`;
  return (
    <>
      <p>{said}.</p>
      <Figure label={said} ratio={0.72} least={300} most={460} margin={{ left: 78, right: 16, top: 10, bottom: 44 }}>
        {(box) => {
          const x = scaleLog(domain, [box.left, box.right]);
          const y = scaleLog(domain, [box.bottom, box.top]);
          const decades = ticks(x, box);
          const titled = (what: string) => (points.unit ? `${what}, ${points.unit}` : what);
          return (
            <>
              <AxisX scale={x} box={box} label={titled(points.across)} ticks={decades} format={tick} />
              <AxisY scale={y} box={box} label={titled(points.up)} ticks={decades} format={tick} />
              <line class="diagonal" x1={x(domain[0])} y1={y(domain[0])} x2={x(domain[1])} y2={y(domain[1])} />
              {series.map(({ one, dots }, k) => (
                <g key={one.y}>
                  {one.bars && dots.map(({ row, x: across }) => {
                    const [low, high] = one.bars!.map((name) => Number(rows[row]![name])) as [number, number];
                    return low > 0 && <line key={row} class="bar" x1={x(across)} x2={x(across)} y1={y(low)} y2={y(high)} />;
                  })}
                  {dots.map((dot) => (
                    <Mark key={dot.row} k={k} at={[x(dot.x), y(dot.y)]} chosen={dot.row === chosen} onClick={() => onChoose(dot.row)}
                      says={`${says(rows[dot.row]!)}: ${say(dot.x)} across, ${say(dot.y)} up`} />
                  ))}
                </g>
              ))}
            </>
          );
        }}
      </Figure>
      <ul class="drift-keys" aria-label="What the marks mean">
        {series.map(({ one }, k) => (
          <li key={one.y}><b aria-hidden="true" style={{ color: COLORS[k] }}>{MARKS[k]!.sign}</b> {one.says}</li>
        ))}
        <li><b aria-hidden="true">╌</b> equal</li>
      </ul>
    </>
  );
}

const COLORS = ["var(--t-Q)", "var(--t-K)", "var(--t-V)"];

function dotsOf(one: Series, rows: readonly Row[], shown: readonly number[]): Dot[] {
  return shown.flatMap((row) => {
    const told = rows[row]!;
    if (one.where && told[one.where[0]] !== one.where[1]) return [];
    const x = told[one.x];
    const y = one.plus ? sum(told[one.y], told[one.plus]) : told[one.y];
    // Zero has no place on a logarithmic axis, and −1 is what was not read.
    return typeof x === "number" && typeof y === "number" && x > 0 && y > 0 ? [{ row, x, y }] : [];
  });
}

const sum = (a: Value | undefined, b: Value | undefined) =>
  typeof a === "number" && typeof b === "number" ? a + b : undefined;

function ticks(scale: { ticks: (count: number) => number[]; domain: () => number[] }, box: Box): number[] {
  const [low, high] = scale.domain() as [number, number];
  const decades: number[] = [];
  for (let e = Math.ceil(Math.log10(low)); e <= Math.log10(high); e++) decades.push(10 ** e);
  if (decades.length < 2) return scale.ticks(4).filter((_, k, all) => k % Math.ceil(all.length / 4) === 0);
  const keep = Math.ceil(decades.length / Math.max(2, box.width / 90));
  return decades.filter((_, k) => k % keep === 0);
}

const says = (row: Row) => Object.values(row).slice(0, 4).join(", ");

interface MarkProps {
  k: number;
  at: readonly [number, number];
  chosen: boolean;
  says: string;
  onClick: () => void;
}

function Mark({ k, at: [x, y], chosen, says, onClick }: MarkProps) {
  const name = `mark ${MARKS[k]!.name}${chosen ? " chosen" : ""}`;
  const r = chosen ? 7 : 4;
  const shape =
    k === 0 ? `M${x - r},${y}a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`
    : k === 1 ? `M${x - r},${y - r}h${2 * r}v${2 * r}h${-2 * r}z`
    : `M${x},${y - r}l${r},${1.8 * r}h${-2 * r}z`;
  return <path class={name} d={shape} onClick={onClick}><title>{says}</title></path>;
}
