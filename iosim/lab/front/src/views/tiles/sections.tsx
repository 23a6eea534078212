// Sections through the plane: words along one tile beside the other, on one scale of words.
import { scaleLog } from "d3-scale";
import { curveStepAfter, line } from "d3-shape";
import { AxisX, AxisY, Figure, powers, say, tenTo } from "../../ui";
import type { Grid, Section } from "./model";
import { Sign } from "./plot";

interface SectionProps { section: Section; grid: Grid; words: number }

export function SectionPlot({ section, grid, words }: SectionProps) {
  const { tile, beside, points, last, at } = section;
  const end = points[points.length - 1]![0];
  return (
    <Figure label={`Words along ${tile}, with ${beside}`} ratio={0.7} least={190} most={240} margin={{ left: 58, right: 26, top: 22, bottom: 44 }}>
      {(box) => {
        const x = scaleLog([1, end * 1.1], [box.left, box.right]);
        const y = scaleLog([grid.low / 1.3, grid.high * 1.3], [box.bottom, box.top]);
        const path = (some: readonly [number, number][]) =>
          line<[number, number]>((p) => x(p[0]), (p) => y(p[1])).curve(curveStepAfter)(some as [number, number][]) ?? "";
        const inside = points.filter(([v]) => v <= last);
        const edge: [number, number][] = inside.length ? [[Math.min(last + 1, end * 1.1), inside[inside.length - 1]![1]]] : [];
        const beyond = [...edge, ...points.filter(([v]) => v > last)];
        return (
          <>
            <AxisX scale={x} box={box} label={tile} ticks={powers(4, x, box.width / 60)} format={say} />
            <AxisY scale={y} box={box} label="words, model" ticks={powers(10, y, 6)} format={tenTo} />
            <text class="tiles-beside" x={box.left + 4} y={14}>with {beside}</text>
            <path class="tiles-section" d={path([...inside, ...edge])} />
            <path class="tiles-section beyond" d={path(beyond)} />
            {last >= 1 && last < end && <line class="tiles-last" x1={x(last + 1)} x2={x(last + 1)} y1={box.top} y2={box.bottom} />}
            <g transform={`translate(${x(at)},${y(words)}) scale(0.7)`}><Sign sign="you" x={0} y={0} /></g>
          </>
        );
      }}
    </Figure>
  );
}

// Which tile matters, in words, among the tiles that fit with the other.
export function whichMatters([first, second]: [Section, Section]): string {
  const [a, b] = [spread(first), spread(second)];
  if (!a || !b) return "The other tile leaves no room for it: move into the part that fits.";
  const ratio = [a.from / a.to, b.from / b.to] as const;
  const all = `${along(first, a)} ${along(second, b)}`;
  if (ratio[0] === ratio[1]) return `${all} Both matter equally.`;
  const [more, most] = ratio[0] > ratio[1] ? [first.tile, ratio[0]] : [second.tile, ratio[1]];
  return most === 1 ? `${all} Neither matters here.` : `${all} ${more} is the tile that matters.`;
}

interface Spread { from: number; to: number; last: number }

function spread({ points, last }: Section): Spread | undefined {
  const inside = points.filter(([v]) => v <= last);
  const [from, to] = [inside[0]?.[1], inside[inside.length - 1]?.[1]];
  return from === undefined || to === undefined ? undefined : { from, to, last };
}

function along({ tile, beside }: Section, { from, to, last }: Spread): string {
  const range = `With ${beside}, ${tile} can be 1 to ${say(last)}`;
  return from === to
    ? `${range}, and the words stay ${say(to)}.`
    : `${range}, and the words fall from ${say(from)} to ${say(to)}, ${(from / to).toFixed(2)} times.`;
}
