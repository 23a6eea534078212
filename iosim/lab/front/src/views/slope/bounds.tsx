// Every bound at the cursor, whether it is drawn or not.
import { say, Table } from "../../ui";
import { boundAt, uncovered, type Bound, type Preset, type SlopeData } from "./data";
import { words } from "./reading";

export function BoundsTable({ data, preset, M }: { data: SlopeData; preset: Preset; M: number }) {
  const given = preset.own?.options ?? [];
  return (
    <details class="slope-bounds">
      <summary>All bounds at M = {say(M)}, with their sources</summary>
      <Table
        caption="Words, loads and stores together. A bound of a class holds for every schedule of the class."
        columns={["bound", "says", "words", "class, or what it covers", "source"]}
        rows={data.bounds.map((b) => [b.name, kind(b), value(data, preset, b, M), of(b), given.length ? b.source_with_options : b.source])}
      />
      <dl>
        {Object.entries(data.classes).map(([name, says]) => (
          <div key={name}><dt>class {name}</dt><dd>{says}</dd></div>
        ))}
      </dl>
    </details>
  );
}

function kind(b: Bound): string {
  if (b.strength === "asymptotic") return b.kind === "lower" ? "at least, up to a constant" : "at most, up to a constant";
  return b.kind === "lower" ? "at least" : "attained";
}

function value(data: SlopeData, preset: Preset, b: Bound, M: number): string {
  const at = boundAt(preset, b, M);
  if (at !== null) return words(at);
  const lacks = uncovered(data, preset, b);
  return `does not apply: ${lacks.length ? `its theorem does not cover ${lacks.join(" and ")}` : b.validity}`;
}

const of = (b: Bound): string => (b.classes.length && b.strength === "exact" ? b.classes.join(", ") : b.covers);
