// Why ⌈M/4d⌉, and why min with d: in steps, with the numbers of the plane.
import { scaleLinear, scaleLog } from "d3-scale";
import { line } from "d3-shape";
import { AxisX, AxisY, Figure, say, useName } from "../../ui";
import { chosen, type TilesData } from "./data";
import { buffersOf, pointOf, ruleOf, type Held, type Point, type Setting } from "./model";
import { useMemo } from "preact/hooks";

interface WhyProps { data: TilesData; setting: Setting; optimum: Point | undefined; matters: string }

export function Why({ data, setting, optimum, matters }: WhyProps) {
  const { plane: { x, y, schedule }, sizes, M } = setting;
  const d = sizes.d!;
  const rule = chosen(data.rule.tiles, { ...sizes, M });
  const free = chosen(data.rule.uncapped, { ...sizes, M });
  const point = pointOf(setting, data.rule.name, "rule", rule);
  const uncapped = pointOf(setting, "without min", "rule", free);
  const [B_r, B_c] = [rule.B_r!, rule.B_c!];
  const buffers = Object.entries(buffersOf(setting, point.tiles)).map(([name, words]) => `${name} ${say(words)}`).join(", ");
  const curve = useMemo(() => ruleOf(data, setting), [data, setting.program, setting.plane, d]);
  return (
    <section class="tiles-why">
      <h3>Why ⌈M/4d⌉, and why min with d?</h3>
      <div class="tiles-split">
        <ol>
          <li><b>Which tile matters.</b> {matters}</li>
          <li>
            <b>Why ⌈M/4d⌉.</b> A row of Q, K, V or O has d = {say(d)} words. The rule gives a quarter of M to a block of each:
            4 blocks of ⌈M/4d⌉ = ⌈{say(M)}/{say(4 * d)}⌉ = {say(B_c)} rows take 4 · {say(B_c)} · {say(d)} = {say(4 * B_c * d)} words, and M is {say(M)}.
          </li>
          <li>
            <b>Why min with d.</b> The scores of a tile are B_r × B_c words, and no quarter is left for them.
            {M > 4 * d * d ? (
              <> M is above 4d² = {say(4 * d * d)}, so that ⌈M/4d⌉ is above d. With two tiles of {say(B_c)} the scores alone would be {say(B_c)} × {say(B_c)} = {say(B_c * B_c)} words,
                and would outgrow M as M grows: they rise like M². With B_r = min({say(B_c)}, {say(d)}) = {say(B_r)} they are {say(B_r * B_c)} words, as many as one of the blocks.
                In all, {schedule} holds {said(point, M)} with the min, and {said(uncapped, M)} without.</>
            ) : (
              <> M is not above 4d² = {say(4 * d * d)}, so that ⌈M/4d⌉ = {say(B_c)} is not above d = {say(d)}: the scores are {say(B_r)} × {say(B_c)} = {say(B_r * B_c)} words,
                no more than a block, and the min changes nothing here. Move M above 4d² to see it.</>
            )}
          </li>
          <li>
            <b>What the rule wastes.</b> With {x} = {say(point.tiles[x]!)}, {y} = {say(point.tiles[y]!)} the buffers of {schedule} have these words: {buffers}.
            The most at once is {said(point, M)}.{" "}
            {optimum ? wasted(point, optimum, x, y) : "No tiles fit in M at all."}
          </li>
        </ol>
        <RulePlot curve={curve} M={M} d={d} schedule={schedule} least={leastOf(setting)} />
      </div>
      <p class="hint">{data.rule.says}: {data.rule.source}.</p>
    </section>
  );
}

const said = ({ peak, fits }: Point, M: number): string =>
  `${say(peak)} words, ${(Number(peak) / M).toFixed(2)} M${fits ? "" : ", which does not fit"}`;

function wasted(rule: Point, optimum: Point, x: string, y: string): string {
  const best = `The optimum, ${x} = ${say(optimum.tiles[x]!)} and ${y} = ${say(optimum.tiles[y]!)}, moves ${say(optimum.words)}`;
  const more = rule.words - optimum.words;
  if (more <= 0n) return `They move ${say(rule.words)} words. ${best}${rule.fits ? "" : " and fits"}.`;
  return `They move ${say(rule.words)} words. ${best}: the rule moves ${(Number(rule.words) / Number(optimum.words)).toFixed(3)} times as many, `
    + `${say(more)} words more than needed. It gives equal room to all blocks; the optimum gives what it can to the tile that saves words.`;
}

// What the rule says nothing of.
const leastOf = ({ program, plane }: Setting): string =>
  program.tree.params.filter((p) => plane.held.includes(p.name)).map((p) => `, ${p.name} = ${p.least}`).join("");

interface RulePlotProps { curve: readonly Held[]; M: number; d: number; schedule: string; least: string }

function RulePlot({ curve, M, d, schedule, least }: RulePlotProps) {
  const clip = useName();
  const label = `What the rule holds in ${schedule}, as a part of M, with and without its min, for long sequences`;
  return (
    <Figure label={label} ratio={0.7} least={230} most={320} margin={{ left: 52, right: 14, top: 26, bottom: 46 }}>
      {(box) => {
        const first = curve[0]!.M, last = curve[curve.length - 1]!.M;
        const x = scaleLog([first / d ** 2, last / d ** 2], [box.left, box.right]);
        const y = scaleLinear([0, 3], [box.bottom, box.top]);
        const path = (of: (h: Held) => number) =>
          line<Held>((h) => x(h.M / d ** 2), (h) => y(of(h)))(curve as Held[]) ?? "";
        const here = M / d ** 2;
        return (
          <>
            <AxisX scale={x} box={box} label="M / d²" ticks={[0.25, 1, 4, 16, 64].filter((t) => t >= first / d ** 2)} />
            <AxisY scale={y} box={box} label="peak ÷ M" ticks={[0, 1, 2, 3]} />
            <line class="tiles-full" x1={box.left} x2={box.right} y1={y(1)} y2={y(1)} />
            <text class="tiles-beside" x={box.left} y={14}>{schedule}, what the rule holds{least}</text>
            <clipPath id={clip}><rect x={box.left} y={box.top} width={box.right - box.left} height={box.bottom - box.top} /></clipPath>
            <g clip-path={`url(#${clip})`}>
              <path class="tiles-free" d={path((h) => h.free)} />
              <path class="tiles-capped" d={path((h) => h.capped)} />
            </g>
            <text class="tiles-free-name" x={x(18)} y={y(1.22)}>without min</text>
            <text class="tiles-capped-name" x={box.right - 4} y={y(0.3)} text-anchor="end">with min</text>
            {here >= first / d ** 2 && here <= last / d ** 2 && (
              <line class="tiles-now" x1={x(here)} x2={x(here)} y1={box.top} y2={box.bottom} />
            )}
          </>
        );
      }}
    </Figure>
  );
}
