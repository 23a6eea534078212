// Watch: a schedule, or two on one clock, step by step.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useAsk } from "../../context";
import { ended } from "../../engine";
import type { View, ViewProps } from "../../types";
import { say, useMedia } from "../../ui";
import { usePacked } from "../../forms/options";
import type { WatchData } from "./data";
import { Fields } from "./fields";
import { Launch } from "./launch";
import { usePlace } from "./place";
import { Said } from "./said";
import type { Found } from "./searching";
import { asked, isWrong, read, tilesText, World, type Read, type Side, type Tried, type Wrong } from "./setup";
import { nowText, Stage } from "./stage";
import { useTheme } from "./theme";
import { firstRate, Transport } from "./transport";
import type { Moment } from "./timeline";
import "./watch.css";

export const view: View<WatchData> = {
  id: "watch",
  title: "Watch",
  says: "A schedule step by step: what it loads, holds and stores, in words of the model.",
  keys: [
    ["Space", "play or pause"],
    ["← →", "a step back or forward"],
    [", .", "the previous or next transfer"],
    ["[ ]", "the previous or next iteration of the loop"],
    ["Home End", "the beginning or the end"],
  ],
  Component: Either,
};

function Either(props: ViewProps<WatchData>) {
  const { data, params } = props;
  const { launches = [], schedules } = data;
  const name = params.algo ?? data.start.algorithm;
  const launch = launches.find((x) => x.name === name) ?? (schedules.some((x) => x.name === name) ? undefined : launches[0]);
  return launch ? <Launch key={launch.name} launch={launch} {...props} /> : <Loading {...props} />;
}

function Loading(props: ViewProps<WatchData>) {
  const { data, lab } = props;
  const packed = usePacked(data.packed);
  const world = useMemo(() => (packed && !(packed instanceof Error) ? new World(data, lab, packed) : undefined), [data, lab, packed]);
  if (packed instanceof Error)
    return <p class="broken" role="alert">The programs can't be unpacked ({packed.message}): write the page again with `iosim lab`.</p>;
  return world ? <Watch {...props} world={world} /> : <p>Unpacking the programs…</p>;
}

function Watch({ world, params, setParams }: ViewProps<WatchData> & { world: World }) {
  const root = useRef<HTMLDivElement>(null);
  const theme = useTheme(root);
  const tall = useMedia("(min-height: 900px)");
  const wide = useMedia("(min-width: 1100px)");
  const narrow = useMedia("(max-width: 620px)");
  const given = useMemo(() => read(world.data, params), [world, params]);
  const learned = useLearned(world, given);
  const { sides, wrongs, both } = useSides(world, given, learned.count);
  useEffect(() => learned.ask(sides), [sides]);
  const [one] = sides;
  const last = both ? Math.max(...sides.map((x) => x.timeline.moved)) : one.limit;
  const [rate, setRate] = useState(firstRate(both));
  const [loop, setLoop] = useState(-1);
  const line = one.timeline.loops.some((x) => x.line === loop) ? loop : innermost(one);
  const { at, playing, going, setPosition, setPlaying } = usePlace({
    given: given.at, last, rate, params, setParams,
    moves: (at, stop) => {
      const step = (by: 1 | -1) => stop(both ? nextWords(sides, at, by) : at + by);
      const near = (lines: readonly number[], by: 1 | -1) => stop(one.timeline.near(one.timeline.at(at), lines, by).step);
      return {
        step,
        transfer: (by) => (both ? step(by) : near(one.timeline.transfers(), by)),
        turn: (by) => (both ? step(by) : near([line], by)),
      };
    },
  });

  // Another unit of the clock begins at its beginning.
  const clock = useRef(both);
  useEffect(() => {
    if (clock.current === both) return;
    clock.current = both;
    setPlaying(false);
    setPosition(0);
    setRate(firstRate(both));
  }, [both]);
  // What doesn't fit is shown at once.
  const stuck = !both && one.limit < one.timeline.steps;
  useEffect(() => {
    if (stuck) setPosition(one.limit);
  }, [stuck, one]);

  const moments = useMemo(
    () => sides.map((x) => (both ? within(x, x.timeline.atWords(at)) : x.timeline.at(at))),
    [sides, both, at],
  );
  const small = sides.find((x) => x.limit < x.timeline.steps);
  const tile = (k: 0 | 1) => (tiles: Record<string, number> | null) =>
    setParams({ [k ? "vtiles" : "tiles"]: tiles ? tilesText(tiles) : world.data.start.tiles && !k ? "best" : undefined });
  const compact = both && wide && !tall; // a projector shows both without scrolling
  return (
    <div class={compact ? "watch compact" : "watch"} ref={root}>
      {given.wrong.length > 0 && <p class="broken" role="alert">Not understood: {given.wrong.join("; ")}.</p>}
      <Fields
        world={world}
        read={given}
        wrongs={wrongs.flatMap((x) => x ?? [])}
        tooSmall={small ? { says: smallText(small, small.marked || given.own[sides.indexOf(small)] != null), smallest: small.smallest } : null}
        set={setParams}
        params={params}
        side={one}
      />
      <Transport
        unit={both ? "words" : "steps"} position={at} last={last} going={going} playing={playing}
        moved={both ? null : [moments[0]!.moved, one.timeline.moved]}
        rate={rate} onRate={setRate} loops={loopsOf(one)} loop={line} onLoop={setLoop}
      />
      <div class={both ? "stages two" : "stages"}>
        {sides.map((side, k) => (
          <Stage
            key={k} side={side} moment={moments[k]!} theme={theme} own={given.own[k as 0 | 1] !== null} opened={(k ? "vtiles" : "tiles") in params}
            wrong={wrongs[k] ?? null} onTiles={tile(k as 0 | 1)} both={both} height={compact ? 62 : tall && !narrow ? (both ? 200 : 300) : 132}
          />
        ))}
      </div>
      <Said text={sides.map((x, k) => saidText(x, moments[k]!)).join(" ")} />
    </div>
  );
}

// Searches that have not ended go on beside the view; in a notebook Python is asked first.
function useLearned(world: World, given: Read) {
  const python = useAsk();
  const [count, setCount] = useState(0);
  const ask = (sides: readonly Side[]) => {
    let here = true;
    for (const side of sides) {
      const { search } = side;
      if (!search) continue;
      const searched = () => ended(search, () => here);
      const fits = side.limit === side.timeline.steps;
      const found = python && fits
        ? python("tiles", asked(world.data, side, given.choice)).then((x) => x as Found, searched) : searched();
      void found.then((x) => {
        if (x) world.learn(side.schedule, given.choice, x);
        if (x && here) setCount((n) => n + 1);
      });
    }
    return () => {
      here = false;
    };
  };
  return { count, ask };
}

// The sides as they are typed; where one is wrong, the last good one stays.
function useSides(world: World, given: Read, learned: number) {
  const good = useRef<[Side?, Side?]>([]);
  return useMemo(() => {
    const first = world.schedule(given.algorithm)!;
    const second = given.versus ? world.schedule(given.versus) : undefined;
    const tried: Tried[] = [world.side(first, given.choice, given.own[0])];
    if (second && second.name !== first.name) tried.push(world.side(second, given.choice, given.own[1]));
    const wrongs = tried.map((x): Wrong | null => (isWrong(x) ? x.wrong : null));
    const sides = tried.flatMap((x, k): Side[] => {
      const kept = isWrong(x) ? good.current[k as 0 | 1] : x.side;
      good.current[k as 0 | 1] = kept;
      return kept ? [kept] : [];
    });
    if (sides.length === 0) sides.push(world.fallback());
    return { sides: sides as [Side, ...Side[]], wrongs, both: sides.length > 1 };
  }, [world, given, learned]);
}

// No further than to what doesn't fit.
const within = (side: Side, moment: Moment): Moment =>
  moment.step > side.limit ? side.timeline.at(side.limit) : moment;

// The next or the previous number of words at which one of the schedules has done a transfer.
function nextWords(sides: readonly Side[], at: number, by: 1 | -1): number {
  const found = sides.map(({ timeline }) => {
    if (by > 0) return at < timeline.moved ? timeline.reaching(at + 1).moved : Infinity;
    const last = timeline.reaching(Math.min(at, timeline.moved));
    return at > timeline.moved ? timeline.moved : last.moved - (last.last?.words ?? 0);
  });
  return by > 0 ? Math.min(...found) : Math.max(...found);
}

const loopsOf = ({ program, timeline }: Side) =>
  timeline.loops.map(({ line }) => ({ line, label: `${line + 1}: ${program.listing[line]!.code.trim().replace(/:$/, "")}` }));

// The loop that turns most often.
function innermost({ timeline }: Side): number {
  const { runs } = timeline.total;
  return timeline.loops.reduce((best, x) => (runs[x.line]! > runs[best]! ? x.line : best), timeline.loops[0]?.line ?? 0);
}

function smallText(side: Side, own: boolean): string {
  const who = own ? `These tiles of ${side.schedule.name} need` : `${side.schedule.name} needs`;
  return `${who} at least ${say(side.smallest)} words, and M is ${say(side.M)}.`;
}

function saidText(side: Side, moment: Moment): string {
  const used = moment.held.reduce((n, x) => n + x.words, 0);
  return `${side.schedule.name}, step ${say(moment.step)} of ${say(side.timeline.steps)}. ${nowText(side, moment)}. `
    + `Fast memory ${say(used)} of ${say(side.M)} words. ${say(moment.moved)} words moved.`;
}
