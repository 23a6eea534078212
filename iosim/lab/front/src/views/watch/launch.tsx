// Watch of a Triton kernel's launch: its source, its tensors as grids of words, and the words so far.
import { useMemo, useRef, useState } from "preact/hooks";
import type { ViewProps } from "../../types";
import { Select, Table, say, useMedia, type Cell } from "../../ui";
import type { WatchData } from "./data";
import { LaunchTimeline, panelsOf, type LaunchData, type LaunchMoment } from "./launches";
import { Listing } from "./listing";
import { Matrices } from "./matrices";
import { usePlace } from "./place";
import { Said } from "./said";
import { useTheme } from "./theme";
import { firstRate, Transport } from "./transport";

interface LaunchProps extends Pick<ViewProps<WatchData>, "data" | "params" | "setParams"> {
  launch: LaunchData;
}

export function Launch({ launch, data, params, setParams }: LaunchProps) {
  const root = useRef<HTMLDivElement>(null);
  const theme = useTheme(root);
  const tall = useMedia("(min-height: 900px)");
  const narrow = useMedia("(max-width: 620px)");
  const height = narrow ? 132 : tall ? 300 : 200;
  const timeline = useMemo(() => new LaunchTimeline(launch), [launch]);
  const [rate, setRate] = useState(firstRate(false));
  const asked = params.at ?? "0";
  const given = asked === "end" ? Infinity : /^\d{1,15}$/.test(asked) ? Number(asked) : 0;
  const last = timeline.steps;
  const place = usePlace({
    given, last, rate, params, setParams,
    moves: (at, stop) => ({
      step: (by) => stop(at + by),
      turn: (by) => stop(timeline.near(at, by)),
    }),
  });
  const { at } = place;
  const moment = useMemo(() => timeline.at(at), [timeline, at]);
  const panels = useMemo(() => panelsOf(launch, height), [launch, height]);
  const counted = (way: string, tensor: string) => {
    const key = launch.keys.indexOf(`${way} ${tensor}`);
    return key < 0 ? null : moment.words[key]!;
  };
  const names = [...(data.launches ?? []), ...data.schedules].map((x) => x.name);
  const program = moment.step > 0 ? `program ${say(moment.program)} of 0 to ${say(launch.programs - 1)}` : "";
  return (
    <div class="watch" ref={root}>
      {names.length > 1 && (
        <div class="fields launch">
          <Select label="Schedule" value={launch.name} options={names.map((x) => ({ value: x, label: x }))}
            onChange={(algo) => setParams({ algo, at: undefined })} />
        </div>
      )}
      <Transport
        unit="steps" position={at} last={last} going={place.going} playing={place.playing} moved={[moment.moved, timeline.moved]}
        rate={rate} onRate={setRate} loops={[{ line: 0, label: "program" }]} loop={0} onLoop={() => {}}
      />
      <section class="stage" aria-label={`${launch.name}, step by step`}>
        <div class="heading">
          <h3>{launch.name}</h3> <span class="title">{launch.title}</span>
        </div>
        <div class="scene">
          <div class="pictures">
            <p class="now">{nowText(launch, moment)}</p>
            <Matrices
              name={launch.name} panels={panels} show={(x) => timeline.shown(moment, x.tensor.name)}
              counted={counted} moment={moment} theme={theme} holds={false}
            />
          </div>
          <Listing name={launch.name} lines={launch.listing} line={moment.line} told={(k) => (k === 0 ? program : "")} />
          <Words launch={launch} moment={moment} />
        </div>
      </section>
      <Said text={`${launch.name}, step ${say(at)} of ${say(last)}. ${nowText(launch, moment)}. ${say(moment.moved)} words moved.`} />
    </div>
  );
}

const DOES = { load: "loads", store: "stores", atomic: "reads and writes" } as const;

// The step that was just done, in words.
function nowText(launch: LaunchData, moment: LaunchMoment): string {
  if (moment.step === 0) return "Nothing has run yet";
  const [way, tensor] = launch.keys[moment.key]!.split(" ");
  const words = launch.steps[moment.step - 1]![3]!;
  return `Program ${say(moment.program)} ${DOES[way as keyof typeof DOES]} ${say(words)} ${words === 1 ? "word" : "words"} of ${tensor}`;
}

function Words({ launch, moment }: { launch: LaunchData; moment: LaunchMoment }) {
  const row = (name: Cell, now: number, all: number): Cell[] => [name, now, all, now === all ? "✓" : ""];
  const rows = launch.keys.map((key, k) => row(key, moment.words[k]!, launch.totals[k]!));
  rows.push(row(<strong>all words</strong>, moment.moved, launch.totals.reduce((a, b) => a + b, 0)));
  return (
    <div class="counters">
      <Table
        caption={`Words that ${launch.name} refers to: so far, and in all by iosim kernel count`}
        columns={["counter", "so far", "in all", ""]}
        rows={rows}
      />
    </div>
  );
}
