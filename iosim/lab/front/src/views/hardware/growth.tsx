// DRAM bytes as they grow, with the line of programs in lockstep and what runs of this shape read.
import { scaleLinear } from "d3-scale";
import { AxisX, AxisY, Figure } from "../../ui";
import type { Play } from "./reads";
import { gb } from "./says";
import type { RecordedRun } from "./settings";

interface GrowthProps {
  play: Play;
  frame: number;
  bytes: (misses: number, started: number) => number;
  inStep: number;
  seen: readonly RecordedRun[];
  name: (run: RecordedRun) => string;
}

export function Growth({ play, frame, bytes, inStep, seen, name }: GrowthProps) {
  const read = play.frames.map((x) => bytes(x.misses, x.started));
  const least = play.frames.map((x) => bytes(x.least, x.started));
  const own = Math.max(...read, inStep);
  const measured = seen.map((run) => Number(run.told.measured));
  const top = 1.1 * Math.max(own, ...measured.filter((x) => x < 2.5 * own));
  return (
    <>
    <Figure label={`DRAM bytes read over time: ${gb(read[frame]!)} by now`} ratio={0.3} least={200} most={280} margin={{ left: 76, right: 136, top: 10, bottom: 30 }}>
      {(box) => {
        const x = scaleLinear([0, play.count], [box.left, box.right]);
        const y = scaleLinear([0, top], [box.bottom, box.top]);
        const line = (values: readonly number[], to: number) =>
          values.slice(0, to + 1).map((v, k) => `${k ? "L" : "M"}${x(k).toFixed(1)},${y(v).toFixed(1)}`).join("");
        return (
          <>
            <AxisX scale={x} box={box} label="" ticks={[]} />
            <AxisY scale={y} box={box} label="bytes at L2↔DRAM" format={(v) => `${v / 1e9} GB`} count={4} />
            <line x1={x(0)} y1={y(0)} x2={x(play.count)} y2={y(inStep)} stroke="var(--t-Q)" stroke-width={2} stroke-dasharray="7 4" />
            {spaced(seen, (v) => Math.max(y(v), box.top + 8)).map(({ run, at, to }) => (
              <g key={run.at} font-size={13} fill="var(--fg)">
                <path d={`M${box.right + 2},${at}l10,-5v10z`} fill="var(--t-V)" />
                {to > at && <path d={`M${box.right + 12},${at}L${box.right + 21},${to}`} fill="none" stroke="var(--muted)" />}
                <text x={box.right + 24} y={to} dy="0.32em">
                  {Number(run.told.measured) > top ? "↑ " : ""}{gb(Number(run.told.measured))}
                </text>
                <text x={box.right + 24} y={to + 15} dy="0.32em" fill="var(--muted)">{name(run)}</text>
              </g>
            ))}
            <path d={line(read, read.length - 1)} fill="none" stroke="var(--t-K)" stroke-opacity={0.35} stroke-width={2} />
            <path d={line(least, least.length - 1)} fill="none" stroke="var(--t-K)" stroke-opacity={0.35} stroke-width={1.5} stroke-dasharray="2 3" />
            <path d={line(read, frame)} fill="none" stroke="var(--t-K)" stroke-width={3} />
            <circle cx={x(frame)} cy={y(read[frame]!)} r={5} fill="var(--t-K)" />
            <text x={box.right} y={box.bottom + 18} text-anchor="end" font-size={13} fill="var(--muted)">time</text>
          </>
        );
      }}
    </Figure>
    <ul class="drift-keys" aria-label="What the lines mean">
      <li><b aria-hidden="true" style={{ color: "var(--t-K)" }}>━</b> model, half of L2</li>
      <li><b aria-hidden="true" style={{ color: "var(--t-K)" }}>┄</b> model, all of L2</li>
      <li><b aria-hidden="true" style={{ color: "var(--t-Q)" }}>╍</b> in lockstep</li>
      {seen.length > 0 && <li><b aria-hidden="true" style={{ color: "var(--t-V)" }}>◀</b> recorded, in all</li>}
    </ul>
    </>
  );
}

const APART = 33; // pixels between two labels

// Runs from above to below, their labels moved down until none covers another.
function spaced(seen: readonly RecordedRun[], y: (bytes: number) => number) {
  let last = -Infinity;
  return [...seen]
    .sort((a, b) => Number(b.told.measured) - Number(a.told.measured))
    .map((run) => {
      const at = y(Number(run.told.measured));
      last = Math.max(at, last + APART);
      return { run, at, to: last };
    });
}
