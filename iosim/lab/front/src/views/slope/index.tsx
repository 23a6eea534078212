// Words against M for every schedule, with bounds, and a cursor that says everything at one M.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { best, searchable, type Env, type ProgramData } from "../../engine";
import type { Family } from "../../forms/family";
import { belongs, readGiven, type Given } from "../../forms/given";
import { Options, usePacked } from "../../forms/options";
import type { LabData, Params, View, ViewProps } from "../../types";
import { Button, NumberField, parseWhole, say, Select, Size } from "../../ui";
import { BoundsTable } from "./bounds";
import { atSize, above, binding, least, most, solving, type Preset, type Reading, type SlopeData } from "./data";
import { LineToggles, usual } from "./legend";
import { Own } from "./own";
import { Plot, type Shown } from "./plot";
import { familyOf, problemOf, SIZES, type Wrong } from "./problem";
import { ReadingTable } from "./reading";
import "./slope.css";

// The options that have a field: those that some schedule takes, and masks.
const takenBy = (family: Family): string[] => [...Object.keys(family.options), ...Object.values(family.masks).flat()];

function Slope({ data, lab, params, setParams }: ViewProps<SlopeData>) {
  const given = data.presets.find((p) => `${p.N}x${p.d}` === params.preset) ?? data.presets[0]!;
  const family = useMemo(() => familyOf(data, lab), [data, lab]);
  const link = useMemo(() => typedOf(family, given, params), [family, given, ...named(family).map((x) => params[x])]);
  const { own, wrong } = useOwn(data, lab, family, link?.given, parseWhole(params.M ?? ""));
  const preset = own?.preset() ?? given;
  const klass = params.class !== undefined && params.class in data.classes ? params.class : Object.keys(data.classes)[0]!;
  const M = inside(preset, parseWhole(params.M ?? "")) ?? Math.min(Math.max(preset.d ** 2, least(preset)), most(preset));
  const shown = useMemo(() => chosen(data, params.hidden, params.shown), [data, params.hidden, params.shown]);
  const readings = useMemo(() => own?.readings(M) ?? readingsAt(data, preset, lab.programs, M), [data, preset, lab, M]);
  const pending = own?.pending(M) ?? [];
  const bound = useMemo(() => binding(data, preset, klass, M), [data, preset, klass, M]);
  const [open, setOpen] = useState(false); // the options
  const winners = pending.length ? [] : fewest(readings);
  const told = pending.length ? `${atText(preset, M)}: tiles of ${pending.join(", ")} are searched.`
    : sentence(data, preset, klass, M, readings, winners, bound.words);
  const move = (to: number) => setParams({ M: String(to) });
  const toggle = (name: string) => setParams(toggled(data, shown, name));
  const set = (changes: Record<string, string | undefined>) =>
    setParams({ ...(link ? {} : asParams(preset)), preset: undefined, ...changes });
  const typed: Given = link?.given ?? readGiven(family, asSizes(preset), {}, []);
  const number = (name: string, label = name) => (
    <Size
      key={name}
      label={label}
      value={typed.typed[name]!}
      min={family.fields[name]!.least}
      max={family.fields[name]!.most}
      log={family.fields[name]!.least > 0}
      wrong={wrong?.field === name ? wrong.message : undefined}
      onChange={(x) => set({ [name]: String(x) })}
    />
  );
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
          onChange={(preset) => preset && setParams({ ...Object.fromEntries(named(family).map((x) => [x, undefined])), M: undefined, preset })}
        />
        {SIZES.map((name) => number(name))}
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
        {family.schedules.length > 0 && (
          <details class="slope-options" open={open || typed.options.size > 0} onToggle={(event) => setOpen(event.currentTarget.open)}>
            <summary>Mask, keys and heads: {preset.own?.says || typed.mask}</summary>
            <div class="controls">
              <Options
                family={family} given={typed} takes={takenBy(family)} params={params} set={set} number={number}
                beside={(x) => belongs(family, x, typed.mask)}
              />
            </div>
          </details>
        )}
      </div>
      {wrong?.field === "options" && <p class="wrong" role="alert">{wrong.message}</p>}
      {link && link.wrong.length > 0 && <p class="broken" role="alert">Not understood: {link.wrong.join("; ")}.</p>}
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
          <ReadingTable data={data} preset={preset} M={M} readings={readings} pending={pending} winners={winners} bound={bound} klass={klass} />
          <Lacking preset={preset} />
          <p class="hint" data-missing={own?.missing ?? 0}>{own ? ownSource(own) : source(preset, M)}</p>
        </div>
      </div>
      <Marks preset={preset} />
      <BoundsTable data={data} preset={preset} M={M} />
    </div>
  );
}

const asSizes = (x: Preset): Env => Object.fromEntries(SIZES.map((name) => [name, x[name]]));
const asParams = (x: Preset): Record<string, string> => Object.fromEntries(SIZES.map((name) => [name, String(x[name])]));

// What a link may say of a problem.
const named = (family: Family): string[] => [...new Set([...Object.keys(family.fields), ...Object.keys(family.options), "mask"])];

// The problem of a link that has any; undefined where a preset is shown.
function typedOf(family: Family, preset: Preset, params: Params): { given: Given; wrong: string[] } | undefined {
  if (!named(family).some((name) => name in params)) return undefined;
  const wrong: string[] = [];
  return { given: readGiven(family, asSizes(preset), params, wrong), wrong };
}

const AT_ONCE_MS = 20; // that the page waits for the cursor's numbers
const FRAME_MS = 10; // and for others at a time
const SHOWN_MS = 150; // after which what was made is shown

// A table for a typed problem, which is made while the page answers.  Where what is typed is no problem, the
// last one stays.
function useOwn(data: SlopeData, lab: LabData, family: Family, given: Given | undefined, M: number | undefined): { own?: Own; wrong?: Wrong } {
  const packed = usePacked(family.packed || undefined);
  const last = useRef<Own>();
  const found = useMemo((): { own?: Own; wrong?: Wrong } => {
    if (!given) return {};
    if (packed instanceof Error) return { wrong: { field: "options", message: `The programs can't be unpacked (${packed.message}): write the page again with iosim lab.` } };
    if (!packed && given.options.size) return { own: last.current };
    const problem = problemOf(data, family, packed ?? [], lab, given);
    return "message" in problem ? { own: last.current, wrong: problem } : { own: new Own(data, problem) };
  }, [data, lab, family, given, packed]);
  const { own } = found;
  last.current = given && own;
  const [, show] = useState(0);
  const at = own && (M !== undefined && M >= own.low && M <= own.high ? M : Math.min(Math.max(own.problem.sizes.d ** 2, own.low), own.high));
  useMemo(() => {
    if (!own || at === undefined) return;
    own.add(at);
    own.work(AT_ONCE_MS);
  }, [own, at]);
  useEffect(() => {
    if (!own) return;
    let timer = 0;
    let shown = performance.now();
    const step = () => {
      const waited = own.pending(at!).length;
      const more = own.work(FRAME_MS);
      if (!more || own.pending(at!).length < waited || performance.now() - shown > SHOWN_MS) {
        shown = performance.now();
        show((n) => n + 1);
      }
      if (more) timer = window.setTimeout(step);
    };
    timer = window.setTimeout(step);
    return () => window.clearTimeout(timer);
  }, [own, at]);
  return found;
}

function Lacking({ preset }: { preset: Preset }) {
  const lacks = Object.entries(preset.own?.lacks ?? {});
  if (!lacks.length) return null;
  return <p class="hint slope-lacking">Not here: {lacks.map(([name, why]) => `${name} (${why})`).join("; ")}.</p>;
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
  return Object.fromEntries(solving(data, preset).map(({ name }) => {
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

const atText = (preset: Preset, M: number): string => `M = ${say(M)} = ${(M / preset.d ** 2).toPrecision(3)} d²`;

function sentence(
  data: SlopeData, preset: Preset, klass: string, M: number, readings: Record<string, Reading | undefined>,
  winners: string[], bound: number,
): string {
  const at = atText(preset, M);
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
    : `Here the best kind alternates from M = ${say(first)} to ${say(last)} words, ${(first / d2).toFixed(2)} to ${(last / d2).toFixed(2)} d²: whole tiles decide.`;
  return (
    <>
      {preset.own && preset.own.options.length > 0 && (
        <p class="hint">The statements about these M hold where every row sees every column, with N keys and d columns of V.</p>
      )}
      <dl class="slope-marks">
        {preset.marks.map((mark, k) => (
          <div key={mark.name}>
            <dt>M = {mark.name} = {say(mark.M)}</dt>
            <dd>{mark.says} {k === 0 && when}{k === 0 && preset.own && " This looks only at the M of this table."}</dd>
          </div>
        ))}
      </dl>
    </>
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
  says: "Words of the forward pass against M, in the model: each schedule’s best tiles, above what any must move.",
  Component: Slope,
  keys: [
    ["← →", "the next smaller or larger M of the table"],
    ["Page Down, Page Up", "half or twice as much memory"],
    ["Home, End", "the least and the largest M"],
  ],
};
