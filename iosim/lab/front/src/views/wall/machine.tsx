// The machine: a slider over the registry, and every number's source on demand.
import { Slider, Table } from "../../ui";
import type { Machine } from "./data";
import { digits } from "./said";

interface Props {
  machines: readonly Machine[];
  machine: Machine;
  onChange: (name: string) => void;
}

export function MachineSlider({ machines, machine, onChange }: Props) {
  const k = machines.indexOf(machine);
  return (
    <div class="wall-machine">
      <Slider label="Machine" value={k} min={0} max={machines.length - 1} text={`${machine.title}, ${machine.year}`}
        onChange={(x) => onChange(machines[x]!.name)} />
      <div class="wall-stops" role="group" aria-label="Machines by name">
        {machines.map((m) => (
          <button type="button" key={m.name} aria-pressed={m === machine} onClick={() => onChange(m.name)} title={`${m.title}, ${m.year}`}>
            {m.name}
          </button>
        ))}
      </div>
    </div>
  );
}

export function Sources({ machine }: { machine: Machine }) {
  return (
    <details class="wall-sources">
      <summary>
        {machine.title}, {machine.year}: peak, bandwidth and ridge, with the source of each
      </summary>
      <Table
        caption={`${machine.name}: a core is called ${machine.core}, the last cache before DRAM ${machine.cache}; peaks are dense`}
        columns={["number", "value", "source"]}
        rows={[
          [`ridge ${machine.dtype}, L2↔DRAM`, `${digits(machine.ridge)} FLOP/B`, `peak ${machine.dtype} over dram_bytes_per_s`],
          ...machine.numbers.map((x) => [x.name, x.said, <span class="wall-source">{x.source}</span>]),
        ]}
      />
      {machine.unknown.map((x) => <p key={x} class="hint">{x}.</p>)}
    </details>
  );
}
