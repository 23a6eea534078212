// Programs that drift apart: what it costs at L2↔DRAM, and the barrier that keeps them in lockstep.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Params } from "../../types";
import { Button, NumberField, Player, Select, Size, Slider, Table, TextField, say, useClock, useStill } from "../../ui";
import type { HardwareData } from "./data";
import { Growth } from "./growth";
import { gb, percent } from "./says";
import { Play } from "./reads";
import * as settings from "./settings";
import type { RecordedRun, Settings } from "./settings";
import { Stage } from "./stage";
import { readings, recorded, timeline, type Timeline } from "./sweeps";

const FRAMES = 32; // of a wave
const MOST_FRAMES = 2048;
const SLICE_MS = 24; // at a time, for reading ahead
const SHOW_MS = 100; // between two pictures of how far that is
const RATES = [4, 16, 32, 64, 128, 256];
const DRIFTS = [0, 1, 2, 5, 8, 10, 12, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000];
const BLOCK_ROWS = [16, 32, 64, 128, 256, 512, 1024];
const NO_BARRIER = 0;

interface DriftProps {
  data: HardwareData;
  params: Params;
  setParams: (changes: Record<string, string | undefined>) => void;
}

export function Drift({ data, params, setParams }: DriftProps) {
  const { drift, machines } = data;
  const runs = useMemo(() => settings.runsOf(data), [data]);
  const first = useMemo(() => start(data, runs), [data, runs]);
  const { set, wrong } = useMemo(() => settings.read(params, first, drift), [params, first, drift]);
  const change = (to: Partial<Settings>) =>
    setParams(Object.fromEntries(Object.entries(to).map(([name, x]) => [name, String(x)])));
  // Sweeps that were recorded have the shape of their run.
  const free = (to: Partial<Settings>) => change({ ...to, recorded: 0 });

  const shape = drift.shapes[set.shape]!;
  const sweep = drift.sweeps[set.recorded - 1];
  const items = settings.itemsOf(set, shape);
  const programs = Math.min(set.programs, items);
  const l2 = set.l2 * settings.MIB;
  const time = useTimeline(data, set);
  const play = usePlay(time, shape, l2, drift.share, Math.ceil(items / programs));
  const { frame, playing, player } = usePlayer(play);

  const now = play?.frames[Math.min(frame, play.frames.length - 1)];
  const spent = (misses: number, started: number) => settings.bytes(shape, time!.pieces, misses, started, items);
  const end = play?.done ? play.frames[play.count]! : undefined;
  const inStep = settings.inStep(shape, items, programs, l2, drift.share);
  const seen = settings.alike(set, drift, runs);
  const window = Math.min(1, (l2 * drift.share) / shape.swept);
  const spread = now ? median(play!.frames.slice(0, frame + 1).map((x) => x.spread)) : 0;
  const wave = now ? Math.min(Math.ceil(items / programs), Math.ceil(now.started / programs)) : 0;
  const label = now
    ? `${programs} programs in wave ${wave} of ${Math.ceil(items / programs)}, spread over ${percent(spread)} of K and V; ` +
      `L2 holds ${percent(window)} of it.`
    : "The clock readings are being opened.";

  return (
    <section aria-labelledby="drift-title">
      <h3 id="drift-title" class="unseen">Programs that drift apart</h3>
      {wrong.map((x) => <p class="wrong" role="alert" key={x}>{x}</p>)}
      <div class="controls drift-controls">
        <Select
          label="Shape of a record"
          value={String(chosen(set, data, runs))}
          options={[
            { value: "-1", label: "none of this shape", disabled: true },
            ...presets(runs).map((run) => ({ value: String(run.at), label: runName(run, data) })),
          ]}
          onChange={(at) => change(settings.like(runs[Number(at)]!, set, data))}
        />
        <Select
          label="Drift"
          value={String(set.recorded)}
          options={[
            { value: "0", label: "drawn from a seed" },
            ...drift.sweeps.map((x, k) => ({ value: String(k + 1), label: `as recorded: ${brief(runs[x.run]!, data)}, N ${say(Number(runs[x.run]!.told.N))}, ${stages(runs[x.run]!)}` })),
          ]}
          onChange={(x) => {
            const to = drift.sweeps[Number(x) - 1];
            change({ ...(to ? settings.like(runs[to.run]!, { ...set, recorded: 1 }, data) : {}), recorded: Number(x) });
          }}
        />
      </div>
      <div class="controls drift-controls">
        <Select
          label="N, d"
          value={String(set.shape)}
          options={drift.shapes.map((x, k) => ({ value: String(k), label: `N ${say(x.N)}, d ${x.d}` }))}
          onChange={(x) => free({ shape: Number(x) })}
        />
        <Size label="B_r" value={set.rows} min={16} max={1024} stops={BLOCK_ROWS} onChange={(x) => free({ rows: x })} />
        <Size label="Programs resident" value={set.programs} min={1} max={2048} log onChange={(x) => free({ programs: x })} />
        <Size label="L2, MiB" value={set.l2} min={1} max={1024} log onChange={(x) => change({ l2: x })} />
        <Late value={set.drift} most={drift.most_drift} onChange={(x) => free({ drift: x })} />
        <Barrier set={set} blocks={shape.blocks} onChange={(x) => free({ every: x })} />
        <NumberField label="Seed" value={set.seed} min={0} max={2 ** 32 - 1} onChange={(x) => free({ seed: x })} />
        <Button onClick={() => free({ seed: (set.seed + 1) % 2 ** 32 })}>Draw again</Button>
      </div>
      {player}
      <div class="drift-board">
        <div>
          {play && now && (
            <>
              <Stage play={play} frame={Math.min(frame, play.frames.length - 1)} every={set.every / shape.blocks} label={label} />
              <ul class="drift-keys" aria-label="What the marks mean">
                <li><b aria-hidden="true" style={{ color: "var(--t-Q)" }}>●</b> last read found in L2</li>
                <li><b aria-hidden="true" style={{ color: "var(--t-K)" }}>○</b> last read came from DRAM</li>
                <li><b aria-hidden="true" style={{ color: "var(--t-V)" }}>■</b> held in L2</li>
                {set.every > 0 && <li><b aria-hidden="true">┊</b> barrier, every {say(set.every)} blocks of {shape.B_c} columns{shape.blocks / set.every > 64 ? " (too many to draw)" : ""}</li>}
                <li>down: one line for each program</li>
              </ul>
              <Growth
                play={play} frame={Math.min(frame, play.frames.length - 1)} bytes={(x, started) => spent(x, started)}
                inStep={inStep}
                seen={seen.filter((run) => machines[run.machine]!.l2_bytes === l2)}
                name={(run) => `${brief(run, data)}, ${stages(run)}`}
              />
            </>
          )}
          {!play && <p>Opening the clock readings …</p>}
        </div>
        <div>
          <dl class="counter now">
            <dt>Read from DRAM so far, model (bytes at L2↔DRAM)</dt>
            <dd class="big" data-count="now">{now ? gb(spent(now.misses, now.started)) : "…"}</dd>
            <dd class="exact">{now ? `${say(spent(now.misses, now.started))} bytes` : ""}</dd>
            <dd>wave {say(wave)} of {say(Math.ceil(items / programs))}</dd>
            <dd>spread {percent(spread)} of the sweep (median so far); L2 holds {percent(window)}</dd>
          </dl>
          <dl class="counter now">
            <dt>At the end</dt>
            <dd class="big" data-count="end">{end ? gb(spent(end.misses, items)) : "…"}</dd>
            <dd class="exact" data-count="most">{end ? `${say(spent(end.misses, items))} bytes` : "reading ahead …"}</dd>
            <dd class="exact">
              with half of L2, as both halves of it keep what all programs read; with all of it{" "}
              <span data-count="least">{end ? say(spent(end.least, items)) : "…"}</span> bytes
            </dd>
          </dl>
          <dl class="counter step">
            <dt>In lockstep: the wave model</dt>
            <dd class="big">{gb(inStep)}</dd>
            <dd class="exact" data-count="step">{say(inStep)} bytes</dd>
            <dd>{end ? `the drift reads ${times(spent(end.misses, items) / inStep)} as much` : ""}</dd>
          </dl>
          <dl class="counter seen">
            <dt>Recorded with this shape (counter)</dt>
            {seen.length === 0 && <dd>No record has this N, d, B_r, number of programs and barrier.</dd>}
            {seen.map((run) => (
              <dd key={run.at}>
                <b>{gb(Number(run.told.measured))}</b> {brief(run, data)}, {stages(run)}
              </dd>
            ))}
          </dl>
        </div>
      </div>
      <p class="tells">
        Programs that are near each other read a piece of K and V from DRAM once and share it in L2; when they
        spread over more than L2 holds, the piece is gone before the last of them comes, and each that comes late
        reads it from DRAM again. The barrier lets no program pass before all have read the same k blocks, so they stay
        within what L2 holds, and each wave reads K and V once.
      </p>
      {seen.length > 0 && <Seen seen={seen} data={data} />}
      {!sweep && seen.length > 0 && set.drift > 0 && !set.every && (
        <p class="hint">
          Drawn speeds are independent of each other, so programs drift apart evenly. On a chip they drift apart in groups, as a
          drift as recorded shows, so a record may read less or more at the same spread.
        </p>
      )}
      <p class="unseen" role="status">{playing ? `wave ${wave}` : now ? `${label} Read from DRAM: ${gb(spent(now.misses, now.started))}.` : ""}</p>
    </section>
  );
}

// The first settings: the largest plain run whose sweeps are recorded, with a drift that is drawn.
function start(data: HardwareData, runs: readonly RecordedRun[]): Settings {
  const last = data.drift.sweeps[data.drift.sweeps.length - 1];
  const blank = { shape: 0, rows: 64, programs: 1, l2: 60, drift: 15, every: NO_BARRIER, seed: 0, recorded: 0 };
  return settings.like(runs[last?.run ?? 0]!, blank, data);
}

// The recorded run whose shape and L2 are set; −1 where there is none.
function chosen(set: Settings, data: HardwareData, runs: readonly RecordedRun[]): number {
  const found = settings.alike(set, data.drift, runs);
  return found.find((x) => data.machines[x.machine]!.l2_bytes === set.l2 * settings.MIB)?.at ?? -1;
}

// Of the runs that differ only in what the compiler did, the first.
function presets(runs: readonly RecordedRun[]): RecordedRun[] {
  const key = ({ told, machine, every }: RecordedRun) =>
    [machine, told.N, told.d, told.B_r, told.programs, every].join();
  return [...new Map([...runs].reverse().map((run) => [key(run), run])).values()].reverse();
}

const brief = (run: RecordedRun, data: HardwareData) => data.machines[run.machine]!.device.split(" ").slice(1, 2).join(" ");
const stages = ({ told }: RecordedRun) => `${told.stages} stage${told.stages === 1 ? "" : "s"}`;

function runName(run: RecordedRun, data: HardwareData): string {
  const { told, every } = run;
  const how = every ? `, in lockstep, k ${every}` : "";
  return `${brief(run, data)}: N ${say(Number(told.N))}, d ${told.d}, B_r ${told.B_r}, ${told.programs} programs${how}`;
}

function Seen({ seen, data }: { seen: readonly RecordedRun[]; data: HardwareData }) {
  return (
    <Table
      caption="Recorded runs of this shape: bytes read at L2↔DRAM"
      columns={["device", "stages", "barrier", "counter", "wave model", "its drift, all of L2", "its drift, half of L2", "spread", "date"]}
      rows={seen.map(({ told, machine, record, every }) => [
        data.machines[machine]!.device, told.stages as number, every ? `every ${say(every)} blocks` : "none",
        told.measured as number, told.predicted as number,
        every ? "in lockstep" : (told.drift_least as number), every ? "in lockstep" : (told.drift_most as number),
        String(told.spread), data.records[record]!.provenance.date ?? "",
      ])}
    />
  );
}

function median(values: number[]): number {
  values.sort((a, b) => a - b);
  return values[values.length >> 1] ?? 0;
}

const times = (x: number) => `${x < 10 ? x.toFixed(2) : x.toFixed(1)} times`;

interface LateProps {
  value: number; // per mille
  most: number;
  onChange: (value: number) => void;
}

// How far programs drift: typed in percent, with a tenth.
function Late({ value, most, onChange }: LateProps) {
  const told = useRef("");
  const parse = (text: string) => (/^\s*\d+(\.\d)?\s*%?\s*$/.test(text) ? Math.round(parseFloat(text) * 10) : undefined);
  if (parse(told.current) !== value) told.current = String(value / 10);
  return (
    <div class="size">
      <TextField
        label="A sweep takes longer by up to, %"
        value={told.current}
        width="5em"
        numeric
        check={(text) => {
          const x = parse(text);
          if (x === undefined) return `${text.trim() || "nothing"} is not a percentage with at most one decimal, like 1.5`;
          return x > most ? `${x / 10} % is more than the model's ${most / 10} %` : undefined;
        }}
        onChange={(text) => {
          told.current = text;
          onChange(parse(text)!);
        }}
      />
      <Slider bare label="A sweep takes longer by up to, slider" value={value} min={0} max={most} stops={DRIFTS} text={`${value / 10} %`} onChange={onChange} />
    </div>
  );
}

function Barrier({ set, blocks, onChange }: { set: Settings; blocks: number; onChange: (every: number) => void }) {
  const last = useRef(64);
  if (set.every) last.current = set.every;
  const stops = Array.from({ length: Math.log2(blocks) - 3 }, (_, k) => 2 ** (k + 4));
  return (
    <>
      <Button pressed={set.every > 0} onClick={() => onChange(set.every ? NO_BARRIER : last.current)}>
        Barrier: keep in lockstep
      </Button>
      {set.every > 0 && (
        <Size label="k, blocks between barriers" value={set.every} min={1} max={blocks} stops={stops} onChange={onChange} />
      )}
    </>
  );
}

// The timeline of the settings; undefined while clock readings are being opened.
function useTimeline(data: HardwareData, set: Settings): Timeline | undefined {
  const { drift } = data;
  const shape = drift.shapes[set.shape]!;
  const sweep = drift.sweeps[set.recorded - 1];
  const items = settings.itemsOf(set, shape);
  const { programs, drift: late, every, seed } = set;
  const drawn = useMemo(
    () =>
      sweep
        ? undefined
        : timeline({ items, programs: Math.min(programs, items), blocks: shape.blocks, drift: late, every, seed }, drift.pieces, drift.pace),
    [sweep, items, programs, shape, late, every, seed, drift],
  );
  const [opened, setOpened] = useState<{ of: unknown; time: Timeline }>();
  const [failed, setFailed] = useState<Error>();
  useEffect(() => {
    if (!sweep) return;
    let wanted = true;
    void readings(sweep.clock, sweep.items).then(({ start, end }) => {
      if (wanted) setOpened({ of: sweep, time: recorded(start, end, drift.recorded_pieces) });
    }, setFailed);
    return () => void (wanted = false);
  }, [sweep]);
  if (sweep && failed) throw new Error(`the clock readings cannot be opened here: ${failed.message}`);
  return drawn ?? (opened?.of === sweep ? opened?.time : undefined);
}

// A timeline played ahead in slices, so that controls answer meanwhile.
function usePlay(time: Timeline | undefined, shape: { swept: number } & Parameters<typeof settings.room>[0], l2: number, share: number, waves: number): Play | undefined {
  const [, drawn] = useState(0);
  const play = useMemo(() => {
    if (!time) return undefined;
    const rooms = [l2 * share, l2].map((x) => settings.room(shape, time.pieces, x)) as [number, number];
    const made = new Play(time, rooms, Math.min(MOST_FRAMES, Math.max(FRAMES * waves, 2 * FRAMES)));
    made.run(0);
    return made;
  }, [time, shape, l2, share]);
  useEffect(() => {
    if (!play || play.done) return;
    let [wait, shown] = [0, performance.now()];
    const go = () => {
      const done = play.run(SLICE_MS);
      if (done || performance.now() - shown > SHOW_MS) {
        shown = performance.now();
        drawn((x) => x + 1);
      }
      if (!done) wait = window.setTimeout(go);
    };
    wait = window.setTimeout(go);
    return () => clearTimeout(wait);
  }, [play]);
  return play;
}

function usePlayer(play: Play | undefined) {
  const [frame, setFrame] = useState(0);
  const [playing, setPlaying] = useState(false);
  const [rate, setRate] = useState(32);
  const still = useStill();
  const last = play?.count ?? 0;
  useEffect(() => setFrame(0), [play?.time]);
  const to = (x: number) => setFrame(Math.max(0, Math.min(last, x)));
  useClock(playing, rate, (steps) => {
    if (!play) return;
    // Never beyond what has been read ahead.
    const next = Math.min(frame + steps, play.frames.length - 1);
    setFrame(next);
    if (next === last) setPlaying(false);
  });
  const player = (
    <Player
      playing={playing}
      onPlay={(on) => {
        if (on && frame === last) setFrame(0);
        setPlaying(on);
      }}
      onStep={(by) => {
        setPlaying(false);
        to(frame + by);
      }}
      onEnd={(end) => {
        setPlaying(false);
        to(end === "first" ? 0 : last);
      }}
      rate={rate}
      rates={RATES}
      onRate={setRate}
    >
      <Button label="−1 wave: a wave back" onClick={() => to(frame - FRAMES)}>−1 wave</Button>
      <Button label="+1 wave: a wave on" onClick={() => to(frame + FRAMES)}>+1 wave</Button>
      {still && <span class="hint">Without motion, a picture each second.</span>}
    </Player>
  );
  return { frame, playing, player };
}
