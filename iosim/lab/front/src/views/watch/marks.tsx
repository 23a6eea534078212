// The block mask of a schedule: a pattern to choose, and blocks that are marked by a click or a key.
import { useRef, useState } from "preact/hooks";
import { Select } from "../../ui";
import type { BlockMask } from "../../engine";
import { blocksText, MOST_DRAWN, type Rows } from "./blocks";

interface MarksProps {
  mask: BlockMask;
  patterns: Record<string, Rows>;
  chosen: string; // the name of a pattern, or what was drawn
  axes: readonly [string, string];
  onChange: (blocks: string) => void;
}

export function Marks({ mask, patterns, chosen, axes, onChange }: MarksProps) {
  const [rows, columns] = [mask.length, mask[0]!.length];
  const drawn = !(chosen in patterns);
  const marked = mask.reduce((n, row) => n + row.filter(Boolean).length, 0);
  return (
    <div class="marks">
      <div>
        <Select
          label="Marked blocks"
          value={drawn ? "" : chosen}
          options={[...(drawn ? [{ value: "", label: "drawn" }] : []), ...Object.keys(patterns)]}
          onChange={(x) => onChange(x || chosen)}
        />
        <span class="hint" data-blocks={`${rows}x${columns}`}>
          {marked} of {rows} × {columns} blocks
        </span>
      </div>
      {rows <= MOST_DRAWN && columns <= MOST_DRAWN
        ? <Grid mask={mask} axes={axes} onChange={onChange} />
        : <span class="hint">Up to {MOST_DRAWN} × {MOST_DRAWN} they can be marked one by one: choose larger tiles.</span>}
    </div>
  );
}

type Place = readonly [row: number, column: number];

function Grid({ mask, axes, onChange }: Pick<MarksProps, "mask" | "axes" | "onChange">) {
  const [rows, columns] = [mask.length, mask[0]!.length];
  const grid = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<Place>([0, 0]);
  const here: Place = [Math.min(at[0], rows - 1), Math.min(at[1], columns - 1)];
  const toggle = ([row, column]: Place) =>
    onChange(blocksText(mask.map((x, i) => x.map((on, j) => Number(on !== (i === row && j === column))).join(""))));
  const go = ([row, column]: Place) => {
    const to: Place = [Math.min(Math.max(row, 0), rows - 1), Math.min(Math.max(column, 0), columns - 1)];
    setAt(to);
    (grid.current?.children[to[0]]?.children[to[1]] as HTMLElement | undefined)?.focus();
  };
  const pressed = (event: KeyboardEvent, [row, column]: Place) => {
    const to: Record<string, Place> = {
      ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1], Home: [row, 0], End: [row, columns - 1],
    };
    if (event.key in to) go(to[event.key]!);
    else if (event.key === " " || event.key === "Enter") toggle([row, column]);
    else return;
    event.preventDefault();
  };
  return (
    <div
      class="marked" role="grid" ref={grid} aria-label={`Blocks that are marked, tiles of ${axes[0]} by tiles of ${axes[1]}`}
      style={{ gridTemplateRows: `repeat(${rows}, 1fr)` }}
    >
      {mask.map((row, i) => (
        <div key={i} role="row">
          {row.map((on, j) => (
            <span
              key={j} role="gridcell" class={on ? "on" : undefined} aria-selected={on} aria-label={`${i + 1}, ${j + 1}`}
              tabIndex={i === here[0] && j === here[1] ? 0 : -1}
              onFocus={() => setAt([i, j])} onClick={() => toggle([i, j])} onKeyDown={(event) => pressed(event, [i, j])}
            />
          ))}
        </div>
      ))}
    </div>
  );
}
