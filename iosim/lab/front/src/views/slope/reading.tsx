// The table at the cursor: every schedule's exact words, how far above the bound, tiles and peak.
import { say, Table } from "../../ui";
import { most, solving, type Preset, type Reading, type SlopeData } from "./data";
import { lookOf } from "./style";

interface ReadingProps {
  data: SlopeData;
  preset: Preset;
  M: number;
  readings: Record<string, Reading | undefined>;
  pending: readonly string[]; // schedules whose tiles are searched
  winners: readonly string[];
  bound: { words: number; name: string };
  klass: string;
}

export function ReadingTable({ data, preset, M, readings, pending, winners, bound, klass }: ReadingProps) {
  const solved = solving(data, preset);
  const schedules = solved.map(({ name, title, k }) => {
    const here = readings[name];
    const label = (
      <>
        <span title={title}>
          <svg width={14} height={14} viewBox="-7 -7 14 14" aria-hidden="true"><path d={lookOf(k).sign} fill={lookOf(k).color} /></svg>{" "}
          {name}{winners.includes(name) && <b class="slope-fewest"> fewest</b>}
        </span>
        {here ? <Tiles tiles={here.tiles} /> : pending.includes(name) ? <small>tiles are searched</small> : <small>runs from M = {say(leastOf(preset, name))} on</small>}
      </>
    );
    if (!here) return [label, "", "", ""];
    return [label, say(here.words), (Number(here.words) / bound.words).toFixed(3), say(here.peak)];
  });
  const floor = [<>{bound.name}<small>largest bound, class {klass}</small></>, words(bound.words), "1", ""];
  return (
    <div class="slope-reading" aria-busy={pending.length > 0}>
      <Table
        caption={`At M = ${say(M)} words${M === most(preset) ? ", the largest here" : ""}`}
        columns={["schedule, best tiles", "words", "÷ bound", "peak"]}
        rows={[...schedules, floor]}
        current={solved.findIndex((s) => s.name === winners[0])}
      />
    </div>
  );
}

const leastOf = (preset: Preset, name: string): number => preset.own?.least[name] ?? preset.sizes[preset.curves[name]!.first]!;

// As `iosim tightness` prints a bound.
export const words = (x: number): string => say(Math.round(x));

function Tiles({ tiles }: { tiles: Record<string, number> }) {
  return (
    <small class="slope-tiles">
      {Object.entries(tiles).map(([name, value]) => <span key={name}>{name} = {say(value)}</span>)}
    </small>
  );
}
