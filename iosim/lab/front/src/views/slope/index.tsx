// Words against M for every schedule, with bounds, and a cursor that says everything at one M.
import { useEffect, useMemo, useState } from "preact/hooks";
import { best, searchable, type ProgramData } from "../../engine";
import type { Params, View, ViewProps } from "../../types";
import { Button, NumberField, parseWhole, say, Select, Size } from "../../ui";
import { BoundsTable } from "./bounds";
import { atSize, above, binding, least, most, type Preset, type Reading, type SlopeData } from "./data";
import { LineToggles, usual } from "./legend";
import { Own } from "./own";
import { Plot, type Shown } from "./plot";
import { ReadingTable } from "./reading";
import "./slope.css";

function Slope({ data, lab, params, setParams }: ViewProps<SlopeData>) {
  const given = data.presets.find((p) => `${p.N}x${p.d}` === params.preset) ?? data.presets[0]!;
  const typed = typedSizes(data, given, params);
  const own = useOwn(data, lab.programs, typed, parseWhole(params.M ?? ""));
  const preset = own?.preset() ?? given;
  const klass = params.class !== undefined && params.class in data.classes ? params.class : Object.keys(data.classes)[0]!;
  const M = inside(preset, parseWhole(params.M ?? "")) ?? Math.min(Math.max(preset.d ** 2, least(preset)), most(preset));
  const shown = useMemo(() => chosen(data, params.hidden, params.shown), [data, params.hidden, params.shown]);
  const readings = useMemo(() => own?.readings(M) ?? readingsAt(data, preset, lab.programs, M), [data, own ?? preset, lab, M]);
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
          value={own ? "" : `${preset.N}x${preset.d}`}
          options={[
            ...(own ? [{ value: "", label: "one's own" }] : []),
            ...data.presets.map((p) => ({ value: `${p.N}x${p.d}`, label: alone(data, p) ? p.name : `${p.name}: N = ${say(p.N)}, d = ${p.d}` })),
          ]}
          onChange={(preset) => preset && setParams({ preset, M: undefined, N: undefined, d: undefined, heads: undefined })}
        />
        {SIZES.map((name) => (
          <Size
            key={name}
            label={name}
            value={preset[name]}
            min={data.own.fields[name].least}
            max={data.own.fields[name].most}
            log
            onChange={(x) => setParams({ ...asParams(preset), [name]: String(x), preset: undefined })}
          />
        ))}
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
          <p class="hint" data-missing={own?.missing ?? 0}>{own ? ownSource(own) : source(preset, M)}</p>
        </div>
      </div>
      <Marks preset={preset} exact={own === undefined} />
      <BoundsTable data={data} preset={preset} M={M} />
    </div>
  );
}

const SIZES = ["N", "d", "heads"] as const;
type Sizes = Record<(typeof SIZES)[number], number>;

const asParams = (x: Sizes): Record<string, string> => Object.fromEntries(SIZES.map((name) => [name, String(x[name])]));

// The sizes of a link that has any; undefined where a preset is shown.
function typedSizes(data: SlopeData, preset: Preset, params: Params): Sizes | undefined {
  if (!SIZES.some((name) => name in params)) return undefined;
  const of = (name: (typeof SIZES)[number]): number => {
    const { least, most } = data.own.fields[name];
    const x = parseWhole(params[name] ?? "");
    return x !== undefined && x >= least && x <= most ? x : preset[name];
  };
  return { N: of("N"), d: of("d"), heads: of("heads") };
}

const FRAME_MS = 10; // that the page waits for columns at a time
const SHOWN_MS = 150; // after which what was made is shown

// A table for typed sizes, which is made while the page answers; the column of the cursor is there at once.
function useOwn(data: SlopeData, programs: Record<string, unknown>, typed: Sizes | undefined, M: number | undefined): Own | undefined {
  const own = useMemo(() => typed && new Own(data, programs, typed), [data, programs, typed && JSON.stringify(typed)]);
  const [, show] = useState(0);
  useEffect(() => {
    if (!own) return;
    let timer = 0;
    let shown = performance.now();
    const step = () => {
      const begun = performance.now();
      let more = true;
      while (more && performance.now() - begun < FRAME_MS) more = own.work();
      if (!more || performance.now() - shown > SHOWN_MS) {
        shown = performance.now();
        show((n) => n + 1);
      }
      if (more) timer = window.setTimeout(step);
    };
    timer = window.setTimeout(step);
    return () => window.clearTimeout(timer);
  }, [own]);
  if (own && typed) own.add(M !== undefined && M >= own.low && M <= own.high ? M : Math.min(Math.max(typed.d ** 2, own.low), own.high));
  return own;
}

const ownSource = (own: Own): string =>
  "Words and tiles are searched here, exactly, by the programs' closed forms; bounds are Python's formulas. "
  + (own.missing ? `${own.missing} sizes of M are still to come.` : `${own.preset().sizes.length} sizes of M. Type M for any other.`);

// Whether a problem's name is its own; its sizes stand in the fields beside it.
const alone = (data: SlopeData, preset: Preset): boolean => data.presets.filter((p) => p.name === preset.name).length === 1;

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

function Marks({ preset, exact }: { preset: Preset; exact: boolean }) {
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
          <dd>{mark.says} {k === 0 && when}{k === 0 && !exact && " Only the M of this table were asked."}</dd>
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
  says: "Words of the model against M: each schedule’s best tiles, above what any must move.",
  Component: Slope,
  keys: [
    ["← →", "the next smaller or larger M of the table"],
    ["Page Down, Page Up", "half or twice as much memory"],
    ["Home, End", "the least and the largest M"],
  ],
};
