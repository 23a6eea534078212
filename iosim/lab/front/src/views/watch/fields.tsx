// The choices: schedule, sizes, M, what is seen of the scores, and a second schedule.
import { formOf } from "../../forms/family";
import { Options } from "../../forms/options";
import type { Params } from "../../types";
import { Button, Select, Size, say } from "../../ui";
import type { WatchData } from "./data";
import { Marks } from "./marks";
import type { Read, Side, World, Wrong } from "./setup";

interface FieldsProps {
  world: World;
  read: Read;
  wrongs: readonly Wrong[]; // by field
  tooSmall: { says: string; smallest: number } | null;
  set: (changes: Record<string, string | undefined>) => void;
  params: Params;
  side: Side; // the first one that is watched
}

export function Fields({ world, read, wrongs, tooSmall, set, params, side }: FieldsProps) {
  const { data } = world;
  const { launches = [] } = data;
  const schedule = world.schedule(read.algorithm)!;
  const { options, typed } = read.choice;
  const wrong = (field: string) => wrongs.find((x) => x.field === field)?.message;
  const number = (name: string, label = name === "M" ? "M, words" : name) => {
    const { least, most } = data.fields[name]!;
    return (
      <Size
        key={name}
        label={label}
        value={typed[name]!}
        min={least}
        max={most}
        log={least > 0}
        wrong={wrong(name)}
        onChange={(x) => set({ [name]: String(x) })}
      />
    );
  };
  const takes = schedule.options.filter((x) => !schedule.needs.includes(x));
  const others = data.schedules.filter((x) => x.name !== schedule.name && x.fields.join() === schedule.fields.join());
  return (
    <div class="fields">
      <div class="controls">
        {data.examples.length > 0 && (
          <Select
            label="Example"
            value={exampleOf(data.examples, params)}
            options={[{ value: "", label: "one's own" }, ...data.examples.map((x) => x.name)]}
            onChange={(name) => {
              const found = data.examples.find((x) => x.name === name);
              if (found) set({ ...cleared(params), ...found.params });
            }}
          />
        )}
        {data.schedules.length + launches.length > 1 && (
          <Select
            label="Schedule"
            value={read.algorithm}
            options={[...launches, ...data.schedules].map((x) => ({ value: x.name, label: x.name }))}
            onChange={(algo) => set(launches.some((x) => x.name === algo) ? { ...cleared(params), algo } : { algo, tiles: undefined, ...dropped(world, algo, read) })}
          />
        )}
        {schedule.fields.map((x) => number(x))}
        {schedule.needs.filter((x) => !schedule.fields.includes(x)).map((x) => number(x))}
        <div class="with-button">
          {number("M")}
          {tooSmall && (
            <p class="small" role="alert">
              <span class="wrong">{tooSmall.says}</span>
              <Button onClick={() => set({ M: String(tooSmall.smallest) })}>Take M = {say(tooSmall.smallest)}</Button>
            </p>
          )}
        </div>
      </div>
      {(takes.length > 0 || others.length > 0) && (
        <div class="controls">
          <Options
            family={data} given={read.choice} takes={takes} params={params} set={set} number={number}
            beside={(x) => typeof formOf(schedule, new Set([...options, x])) !== "string"}
          />
          {others.length > 0 && (
            <Select
              label="Compare with"
              value={read.versus}
              options={[
                { value: "", label: "no other schedule" },
                ...others.map((x) => {
                  const form = formOf(x, options);
                  return { value: x.name, label: typeof form === "string" ? form : x.name, disabled: typeof form === "string" };
                }),
              ]}
              onChange={(vs) => set({ vs: vs || undefined, vtiles: undefined, at: undefined })}
            />
          )}
        </div>
      )}
      {side.marked && (
        <Marks
          mask={Object.values(side.instance.masks)[0]!}
          patterns={data.blocks}
          chosen={params.blocks ?? Object.keys(data.blocks)[0]!}
          axes={Object.values(side.program.masks)[0]!.map((x) => x.axis) as [string, string]}
          onChange={(blocks) => set({ blocks })}
        />
      )}
      {wrong("blocks") && <p class="wrong" role="alert">{wrong("blocks")}</p>}
      {wrong("options") && <p class="wrong" role="alert">{wrong("options")}</p>}
    </div>
  );
}

// The example that a link is; where one is watched does not matter.
function exampleOf(examples: WatchData["examples"], params: Params): string {
  const text = (x: Params) => JSON.stringify(Object.entries(x).filter(([k]) => k !== "at").sort());
  return examples.find((x) => text(x.params) === text(params))?.name ?? "";
}

const cleared = (params: Params): Record<string, undefined> =>
  Object.fromEntries(Object.keys(params).map((x) => [x, undefined]));

// What another schedule doesn't take is taken back.
function dropped(world: World, algorithm: string, read: Read): Record<string, undefined> {
  const next = world.schedule(algorithm)!;
  const lost: Record<string, undefined> = { at: undefined };
  if (!(world.data.masks[read.choice.mask] ?? []).every((x) => next.options.includes(x))) lost.mask = undefined;
  for (const x of Object.keys(world.data.options))
    if (read.choice.options.has(x) && !next.options.includes(x) && !next.fields.includes(x)) lost[x] = undefined;
  const versus = world.schedule(read.versus);
  if (versus && (versus.name === algorithm || versus.fields.join() !== next.fields.join())) lost.vs = lost.vtiles = undefined;
  return lost;
}

interface TilesProps {
  side: Side;
  own: boolean;
  wrong: Wrong | null;
  onChange: (tiles: Record<string, number> | null) => void;
  open: boolean;
}

// The tiles of one schedule: chosen for the fewest words, until one is moved.
export function Tiles({ side, own, wrong, onChange, open }: TilesProps) {
  const { params } = side.program.tree;
  const { env } = side.instance;
  const told = params.map((p) => `${p.name} = ${say(side.tiles[p.name]!)}`).join(", ");
  return (
    <details class="tiling" open={open}>
      <summary>
        Tiles, {side.how}: <span class="told">{told}</span>
      </summary>
      <div class="controls">
        {params.map((p) => {
          const most = p.less ? env[p.axis]! - env[p.less]! : env[p.axis]!;
          return (
            <Size
              key={p.name}
              label={p.name}
              value={side.tiles[p.name]!}
              min={p.least}
              max={Math.max(p.least, most)}
              log={p.least > 0 && most > 1}
              wrong={wrong?.field === p.name ? wrong.message : undefined}
              onChange={(x) => onChange({ ...side.tiles, [p.name]: x })}
            />
          );
        })}
        {own && <Button onClick={() => onChange(null)}>Choose for the fewest words</Button>}
      </div>
      {wrong && !params.some((p) => p.name === wrong.field) && <p class="wrong" role="alert">{wrong.message}</p>}
    </details>
  );
}
