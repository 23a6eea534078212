// Every counter beside its closed form and what that comes to.
import { useMemo } from "preact/hooks";
import { count } from "../../engine";
import { Table, type Cell } from "../../ui";
import type { Side } from "./setup";
import type { Moment } from "./timeline";

// A formula that may go on in a next line after any factor, and not within a name.
const breakable = (text: string) => text.split(/(?<=·)/).map((x) => <>{x}<wbr /></>);

export function Counters({ side, moment }: { side: Side; moment: Moment }) {
  const { timeline, form, instance, program } = side;
  const all = count(instance);
  // Drawn once: a mask's closed forms are long, and every step draws the table.
  const closed = useMemo(() => Object.fromEntries(timeline.keys.map((key) => [key, <code>{breakable(form.totals[key] ?? "")}</code>])), [timeline, form]);
  const row = (key: string, k: number): Cell[] => {
    const now = BigInt(moment.words[k]!);
    return [key, now, all[key]!, now === all[key] ? "✓" : "", closed[key]!];
  };
  const total = Object.values(all).reduce((a, b) => a + b, 0n);
  const moved = BigInt(moment.moved);
  const rows = timeline.keys.map(row);
  rows.push([<strong>all words</strong>, moved, total, moved === total ? "✓" : "", ""]);
  return (
    <div class="counters">
      <Table
        caption={`Words moved by ${program.name}: so far, and in all by the closed form`}
        columns={["counter", "so far", "in all", "", "closed form"]}
        rows={rows}
      />
      {program.signs.length > 0 && (
        <details>
          <summary>What the signs mean</summary>
          <dl>{program.signs.map(([sign, says]) => [<dt><code>{sign}</code></dt>, <dd>{says}</dd>])}</dl>
        </details>
      )}
    </div>
  );
}
