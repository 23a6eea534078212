// Records of GPUs beside the model: where they come from, a scatter, the whole table, a row's tensors.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Params } from "../../types";
import { Select, Table, TextField, say } from "../../ui";
import type { Column, HardwareData, HardwareRecord } from "./data";
import { rowsOf, tensorsOf } from "./data";
import type { Row, Value } from "./packed";
import { Scatter } from "./scatter";

interface RecordsProps {
  data: HardwareData;
  params: Params;
  setParams: (changes: Record<string, string | undefined>) => void;
}

export function Records({ data, params, setParams }: RecordsProps) {
  const at = known(data.records.findIndex((x) => `${x.machine}/${x.name}` === params.record), data.records.findIndex((x) => x.points.length > 0));
  const record = data.records[at]!;
  const rows = rowsOf(data, at);
  const points = record.points[Number(params.points ?? 0)] ?? record.points[0];
  const [holding, setHolding] = useState("");
  const shown = useMemo(() => {
    const words = holding.toLowerCase().split(/\s+/).filter(Boolean);
    return rows.flatMap((row, k) => {
      const text = textual(row).toLowerCase();
      return words.every((w) => text.includes(w)) ? [k] : [];
    });
  }, [rows, holding]);
  const row = params.row !== undefined && rows[Number(params.row)] ? Number(params.row) : undefined;
  const wrong = params.record !== undefined && `${record.machine}/${record.name}` !== params.record
    ? `${params.record} in the link is not a record: ${record.machine}/${record.name} is shown`
    : undefined;
  const choose = (k: number) => setParams({ row: String(k) });

  return (
    <section aria-labelledby="records-title">
      <h3 id="records-title">Recorded counters and the model</h3>
      {wrong && <p class="wrong" role="alert">{wrong}</p>}
      <div class="controls">
        <Select
          label="Record"
          value={`${record.machine}/${record.name}`}
          options={data.records.map((x) => ({
            value: `${x.machine}/${x.name}`, label: `${data.machines[x.machine]!.device}: ${x.name} (${say(x.rows)} rows)`,
          }))}
          onChange={(x) => setParams({ record: x, row: undefined, points: undefined })}
        />
        {record.points.length > 0 && (
          <Select
            label="Scatter"
            value={String(record.points.indexOf(points!))}
            options={record.points.map((x, k) => ({ value: String(k), label: x.says }))}
            onChange={(x) => setParams({ points: x })}
          />
        )}
        <TextField
          label="Rows that hold"
          value={holding}
          check={() => undefined}
          wrong={shown.length ? undefined : `no row of this record holds ${holding}: all have ${examples(rows)}`}
          hint={`${say(shown.length)} of ${say(rows.length)}`}
          width="14em"
          onChange={setHolding}
        />
      </div>
      <div class="record-board">
        <div>
          {points && <Scatter points={points} rows={rows} shown={shown} chosen={row} onChoose={choose} />}
          {!points && <p>This record is a table.</p>}
        </div>
        <div>
          <p>{record.says}</p>
          <p><b>Replayed with today's model:</b> {record.summary}</p>
          <Provenance record={record} boundaries={data.boundaries} />
        </div>
      </div>
      {row !== undefined && <Chosen data={data} at={at} row={row} />}
      <Rows data={data} record={record} rows={rows} shown={shown} chosen={row} onChoose={choose} />
    </section>
  );
}

const known = (found: number, otherwise: number) => (found >= 0 ? found : Math.max(0, otherwise));

const textual = (row: Row) => Object.values(row).filter((x) => typeof x === "string").join(" ");

function examples(rows: readonly Row[]): string {
  const words = textual(rows[Math.min(1, rows.length - 1)] ?? {}).split(/\s+/);
  return words.filter(Boolean).slice(0, 2).join(", ") || "no text";
}

const TOLD = ["device", "driver", "date", "commit", "command", "cuda", "torch", "triton"];

function Provenance({ record, boundaries }: { record: HardwareRecord; boundaries: HardwareData["boundaries"] }) {
  return (
    <>
      <dl class="provenance" aria-label="Where the numbers come from">
        {TOLD.filter((x) => record.provenance[x]).map((x) => (
          <>
            <dt key={x}>{x}</dt>
            <dd key={`${x}-told`}>{record.provenance[x]}</dd>
          </>
        ))}
      </dl>
      <details>
        <summary>Boundaries and counters</summary>
        <Table
          caption="Which counter is exact at which boundary"
          columns={["boundary", "loads", "stores"]}
          rows={Object.entries(boundaries).map(([name, x]) => [PLACES[name] ?? name, x.load, x.store])}
        />
      </details>
    </>
  );
}

const PLACES: Record<string, string> = { sram: "SM↔L2", l2: "L1↔L2", dram: "L2↔DRAM" };

export function cell(x: Value | undefined): string {
  if (x === null || x === undefined) return "none";
  if (typeof x === "boolean") return x ? "yes" : "no";
  if (typeof x === "number") return Number.isSafeInteger(x) ? say(x) : String(x);
  return String(x);
}

const heading = (name: string, column: Column | undefined) => column?.says ?? name;

const LONG = 30; // characters

// Columns whose text is long come last, so that numbers are seen beside the row's name.
function inOrder(rows: readonly Row[]): string[] {
  const names = Object.keys(rows[0] ?? {});
  const long = names.filter((name) => rows.some((row) => String(row[name]).length > LONG));
  return [...names.filter((name) => !long.includes(name)), ...long];
}

interface RowsProps {
  data: HardwareData;
  record: HardwareRecord;
  rows: readonly Row[];
  shown: readonly number[];
  chosen: number | undefined;
  onChoose: (row: number) => void;
}

// Every column and every row.  What a cell holds is made once, so that choosing a row is quick.
function Rows({ data, record, rows, shown, chosen, onChoose }: RowsProps) {
  const names = useMemo(() => inOrder(rows), [rows]);
  const [sort, setSort] = useState<{ by: string; down: boolean }>();
  const order = useMemo(() => {
    if (!sort || !names.includes(sort.by)) return shown;
    const sign = sort.down ? -1 : 1;
    const value = (k: number) => rows[k]![sort.by] ?? "";
    return [...shown].sort((a, b) => sign * (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0));
  }, [shown, sort, rows]);
  const cells = useMemo(
    () => rows.map((row) => names.slice(1).map((name) => (
      <td key={name} class={typeof row[name] === "number" ? "number" : undefined}>{cell(row[name])}</td>
    ))),
    [rows],
  );
  const { box, current, setStop, pressed } = useStop(names, order, chosen);
  const title = `${record.name} on ${data.machines[record.machine]!.device}: ${shown.length === rows.length ? "all" : say(shown.length)} rows; a row's name shows its tensors`;
  return (
    <div class="record-table" role="region" aria-label={title} ref={box}>
      <table onKeyDown={pressed}>
        <caption class="unseen">{title}</caption>
        <thead>
          <tr>
            {names.map((name) => {
              const on = sort?.by === name;
              const column = data.columns[name];
              return (
                <th key={name} scope="col" aria-sort={on ? (sort.down ? "descending" : "ascending") : "none"}>
                  <button
                    type="button" title={`Sort by ${name}`} tabIndex={name === current ? 0 : -1} onFocus={() => setStop(name)}
                    onClick={() => setSort({ by: name, down: on ? !sort.down : false })}
                  >
                    {heading(name, column)} {on ? (sort.down ? "▼" : "▲") : ""}
                    <span class="of">
                      {[column?.unit, column?.boundary && `at ${column.boundary}`].filter(Boolean).join(" ")}
                    </span>
                  </button>
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>
          {order.map((k) => (
            <tr key={k} aria-current={k === chosen ? "true" : undefined} data-row={k}>
              <th scope="row">
                <button type="button" tabIndex={k === current ? 0 : -1} onFocus={() => setStop(k)} onClick={() => onChoose(k)}>
                  {cell(rows[k]![names[0]!])}
                </button>
              </th>
              {cells[k]}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const PAGE = 10; // rows

// The table is one stop for Tab, a row or a column's head; arrows lead on from it.
function useStop(names: readonly string[], order: readonly number[], chosen: number | undefined) {
  const box = useRef<HTMLDivElement>(null);
  const [stop, setStop] = useState<string | number>();
  useEffect(() => setStop(chosen), [chosen]);
  const there = typeof stop === "string" ? names.includes(stop) : stop !== undefined && order.includes(stop);
  const current = there ? stop! : order[0] ?? names[0]!;
  const pressed = (event: KeyboardEvent) => {
    const to = typeof current === "string" ? fromHead(names, order, current) : fromRow(names, order, current);
    if (!(event.key in to)) return;
    event.preventDefault();
    const next = to[event.key];
    // No row that has the focus is under the heads.
    if (box.current) box.current.style.scrollPaddingTop = `${box.current.querySelector("thead")!.offsetHeight + 4}px`;
    const found = typeof next === "string"
      ? box.current?.querySelectorAll<HTMLElement>("thead button")[names.indexOf(next)]
      : box.current?.querySelector<HTMLElement>(`tr[data-row="${next}"] button`);
    found?.focus();
  };
  return { box, current, setStop, pressed };
}

type Ways = Readonly<Record<string, string | number | undefined>>;

function fromHead(names: readonly string[], order: readonly number[], name: string): Ways {
  const at = names.indexOf(name);
  return {
    ArrowLeft: names[at - 1], ArrowRight: names[at + 1], ArrowDown: order[0], Home: names[0], End: names.at(-1),
  };
}

function fromRow(names: readonly string[], order: readonly number[], row: number): Ways {
  const [at, last] = [order.indexOf(row), order.length - 1];
  return {
    ArrowUp: at ? order[at - 1] : names[0], ArrowDown: order[at + 1], Home: order[0], End: order[last],
    PageUp: order[Math.max(0, at - PAGE)], PageDown: order[Math.min(last, at + PAGE)],
  };
}

// A row's numbers: each tensor's, then each boundary's.
function Chosen({ data, at, row }: { data: HardwareData; at: number; row: number }) {
  const told = rowsOf(data, at)[row]!;
  const tensors = tensorsOf(data, at)[row];
  const names = Object.keys(told);
  const pairs = data.pairs.filter((x) => x.load in told);
  const paired = new Set(pairs.flatMap((x) => [x.load, x.store]));
  return (
    <section class="chosen" aria-labelledby="chosen-title" aria-live="polite">
      <h3 id="chosen-title">{names.slice(0, 5).map((x) => cell(told[x])).join(", ")}</h3>
      {tensors && <Tensors row={tensors} />}
      <div class="record-board">
        <div>
          {pairs.length > 0 && (
            <Table
              caption="Boundary by boundary, in bytes"
              columns={["", "boundary", "loads", "stores"]}
              rows={pairs.map((x) => [x.says, x.boundary, cell(told[x.load]), x.store in told ? cell(told[x.store]) : "not in the record"])}
            />
          )}
        </div>
        <Table
          caption="The rest of the row"
          columns={["", "", "unit", "boundary"]}
          rows={names.filter((name) => !paired.has(name)).map((name) => {
            const column = data.columns[name];
            return [heading(name, column), cell(told[name]), column?.unit ?? "", column?.boundary ?? ""];
          })}
        />
      </div>
    </section>
  );
}

function Tensors({ row }: { row: Row }) {
  const moves = row.moves as readonly (readonly [way: string, tensor: string, wordBytes: number])[];
  const [model, kernel] = [row.model as readonly number[], row.kernel as readonly number[] | null];
  return (
    <Table
      caption="Tensor by tensor, between SM and L2: the model, and the kernel's own count"
      columns={["", "tensor", "words, model", "bytes per word", "bytes, model", "words, counted in the kernel", "kernel − model"]}
      rows={moves.map(([way, tensor, wordBytes], k) => [
        way, tensor, BigInt(model[k]!), wordBytes, BigInt(model[k]!) * BigInt(wordBytes),
        kernel ? BigInt(kernel[k]!) : "not counted", kernel ? BigInt(kernel[k]!) - BigInt(model[k]!) : "",
      ])}
    />
  );
}
