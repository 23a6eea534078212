// A table that is whole: it scrolls by itself where it is wider than the page, and cuts nothing.
import type { ComponentChildren } from "preact";
import { say } from "./numbers";

export type Cell = ComponentChildren | bigint;

interface TableProps {
  caption: string;
  columns: readonly string[];
  rows: readonly (readonly Cell[])[];
  current?: number; // the row that is marked
}

export function Table({ caption, columns, rows, current }: TableProps) {
  return (
    <div class="scroll" role="region" aria-label={caption} tabIndex={0}>
      <table>
        <caption><span>{caption}</span></caption>
        <thead>
          <tr>{columns.map((x) => (x.trim() ? <th key={x} scope="col">{x}</th> : <td key={x} />))}</tr>
        </thead>
        <tbody>
          {rows.map((row, k) => (
            <tr key={k} aria-current={k === current ? "true" : undefined}>
              {row.map((x, j) =>
                typeof x === "number" || typeof x === "bigint" ? (
                  <td key={j} class="number">{say(x)}</td>
                ) : (
                  <td key={j}>{x}</td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
