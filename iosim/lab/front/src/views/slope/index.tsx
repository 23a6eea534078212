// Words against M for every schedule, with bounds, and a cursor that says everything at one M.
import { useMemo } from "preact/hooks";
import { best, searchable, type ProgramData } from "../../engine";
import type { View, ViewProps } from "../../types";
import { Button, NumberField, parseWhole, say, Select } from "../../ui";
import { BoundsTable } from "./bounds";
import { atSize, above, binding, least, most, type Preset, type Reading, type SlopeData } from "./data";
import { LineToggles, usual } from "./legend";
import { Plot, type Shown } from "./plot";
import { ReadingTable } from "./reading";
import "./slope.css";

function Slope({ data, lab, params, setParams }: ViewProps<SlopeData>) {
  const preset = data.presets.find((p) => `${p.N}x${p.d}` === params.preset) ?? data.presets[0]!;
  const klass = params.class !== undefined && params.class in data.classes ? params.class : Object.keys(data.classes)[0]!;
  const M = inside(preset, parseWhole(params.M ?? "")) ?? preset.d ** 2;
  const shown = useMemo(() => chosen(data, params.hidden, params.shown), [data, params.hidden, params.shown]);
  const readings = useMemo(() => readingsAt(data, preset, lab.programs, M), [data, preset, lab, M]);
  const bound = useMemo(() => binding(data, preset, klass, M), [data, preset, klass, M]);
  const winners = fewest(readings);
  const told = sentence(data, preset, klass, M, readings, winners, bound.words);
  const move = (to: number) => setParams({ M: String(to) });
  const toggle = (name: string) => setParams(toggled(data, shown, name));
  return (
    <div class="slope">
      <div class="controls">
        <Select
          label="Problem"
          value={`${preset.N}x${preset.d}`}
          options={data.presets.map((p) => ({ value: `${p.N}x${p.d}`, label: `${p.name}: N = ${say(p.N)}, d = ${p.d}` }))}
          onChange={(preset) => setParams({ preset, M: undefined })}
        />
        <Select
          label="Bound of class"
          value={klass}
          options={Object.keys(data.classes).map((name) => ({ value: name, label: name }))}
          onChange={(to) => setParams({ class: to })}
        />
        <NumberField label="M" value={M} min={least(preset)} max={most(preset)} onChange={move} hint="words" />
        <div class="slope-jumps" role="group" aria-label="Move the cursor to">
          {preset.marks.map((mark) => (
            <Button key={mark.name} pressed={M === mark.M} label={`M = ${mark.name} = ${say(mark.M)}`} onClick={() => move(mark.M)}>{mark.name}</Button>
          ))}
        </div>
      </div>
      <div class="slope-split">
        <div>
          <Plot
            data={data} preset={preset} klass={klass} shown={shown} M={M} readings={readings}
            winner={winners[0] ?? ""} bound={bound.words} told={told} onMove={move}
          />
          <LineToggles data={data} preset={preset} klass={klass} shown={shown} onToggle={toggle} />
        </div>
        <div>
          <p class="slope-told" role="status">{told}</p>
          <ReadingTable data={data} preset={preset} M={M} readings={readings} winners={winners} bound={bound} klass={klass} />
          <p class="hint">{source(preset, M)}</p>
        </div>
      </div>
      <Marks preset={preset} />
      <BoundsTable data={data} preset={preset} M={M} />
    </div>
  );
}

const inside = (preset: Preset, M: number | undefined): number | undefined =>
  M !== undefined && M >= least(preset) && M <= most(preset) ? M : undefined;

// At a size of the table the table's numbers, at others those that the search finds.
function readingsAt(data: SlopeData, preset: Preset, programs: Record<string, unknown>, M: number): Record<string, Reading | undefined> {
  const size = above(preset, M);
  const listed = preset.sizes[size] === M;
  const sizes = { N: preset.N, d: preset.d, heads: 1 };
  return Object.fromEntries(data.schedules.map(({ name }) => {
    if (listed) return [name, atSize(preset.curves[name]!, size)];
    const program = programs[name] as ProgramData | undefined;
    const found = program && searchable(program) ? best(program, sizes, M) : undefined;
    return [name, found && "tiles" in found ? found : undefined];
  }));
}

// All schedules that move as few words as any, in their order.
function fewest(readings: Record<string, Reading | undefined>): string[] {
  const words = Object.entries(readings).flatMap(([name, x]) => (x ? [[name, Number(x.words)] as const] : []));
  const low = Math.min(...words.map(([, w]) => w));
  return words.filter(([, w]) => w === low).map(([name]) => name);
}

function sentence(
  data: SlopeData, preset: Preset, klass: string, M: number, readings: Record<string, Reading | undefined>,
  winners: string[], bound: number,
): string {
  const at = `M = ${say(M)} = ${(M / preset.d ** 2).toPrecision(3)} d²`;
  const [first, ...others] = winners;
  const words = first === undefined ? undefined : readings[first]?.words;
  if (words === undefined) return `${at}: no schedule runs.`;
  const also = others.length ? `, and so ${others.length > 1 ? "do" : "does"} ${others.join(" and ")}` : "";
  const stores = data.schedules.find((s) => s.name === first)?.stores_scores ? "stores the scores" : "never stores the scores";
  return `${at}: ${first}, which ${stores}, moves fewest: ${say(words)} words${also}. `
    + `That is ${(Number(words) / bound).toFixed(3)} × the largest lower bound of class ${klass}.`;
}

function source(preset: Preset, M: number): string {
  const k = above(preset, M);
  if (preset.sizes[k] === M) {
    return `Words, tiles and bounds are those of Python's table, which has ${preset.sizes.length} sizes of M. `
      + "The cursor stops at these; type M for any other.";
  }
  return `M = ${say(M)} is between sizes of the table: tiles are searched here, exactly, by the programs' closed forms. `
    + `A lower bound is that for M = ${say(preset.sizes[k]!)}, the next size, which holds in less memory, too; `
    + `a published count is that for M = ${say(preset.sizes[k - 1]!)}, the size before.`;
}

function Marks({ preset }: { preset: Preset }) {
  const { last, first } = preset.crossover;
  const d2 = preset.d ** 2;
  const when = last < first
    ? `Here the best schedule stores the scores up to M = ${say(last)}, and no longer from ${say(first)} words = ${(first / d2).toFixed(2)} d² on.`
    : `Here both kinds win by turns from M = ${say(first)} to ${say(last)} words, ${(first / d2).toFixed(2)} to ${(last / d2).toFixed(2)} d²: whole tiles decide.`;
  return (
    <dl class="slope-marks">
      {preset.marks.map((mark, k) => (
        <div key={mark.name}>
          <dt>M = {mark.name} = {say(mark.M)}</dt>
          <dd>{mark.says} {k === 0 && when}</dd>
        </div>
      ))}
    </dl>
  );
}

// What the link says: schedules that are hidden, and bounds that are shown.
function chosen(data: SlopeData, hidden: string | undefined, beside: string | undefined): Shown {
  const off = new Set((hidden ?? "").split(","));
  const on = new Set(beside === undefined ? usual(data) : beside.split(","));
  return {
    curves: new Set(data.schedules.map((s) => s.name).filter((name) => !off.has(name))),
    bounds: new Set(data.bounds.map((b) => b.name).filter((name) => on.has(name))),
    largest: !off.has("bound"),
  };
}

function toggled(data: SlopeData, shown: Shown, name: string): Record<string, string> {
  if (data.bounds.some((b) => b.name === name)) {
    return { shown: data.bounds.map((b) => b.name).filter((x) => shown.bounds.has(x) !== (x === name)).join(",") };
  }
  const off = data.schedules.map((s) => s.name).filter((x) => shown.curves.has(x) === (x === name));
  return { hidden: [...off, ...(shown.largest === (name === "bound") ? ["bound"] : [])].join(",") };
}

export const view: View<SlopeData> = {
  id: "slope",
  title: "Ski-slope",
  says: "Words moved against fast memory, every schedule with its best tiles, above what any schedule must move.",
  Component: Slope,
  keys: [
    ["← →", "the next smaller or larger M of the table"],
    ["Page Down, Page Up", "half or twice as much memory"],
    ["Home, End", "the least and the largest M"],
  ],
};
