// One schedule at one moment: its tensors, its fast memory, its listing.
import { useMemo } from "preact/hooks";
import { say } from "../../ui";
import { Counters } from "./counters";
import { Tiles } from "./fields";
import { Listing } from "./listing";
import { Matrices } from "./matrices";
import { FastMemory } from "./memory";
import { panels, shown, type Way } from "./panels";
import type { Side, Wrong } from "./setup";
import type { Moment } from "./timeline";

interface StageProps {
  side: Side;
  moment: Moment;
  theme: string;
  own: boolean;
  opened: boolean; // whether its tiles were typed: those that an instance came with take no room
  wrong: Wrong | null; // what is wrong with its tiles
  onTiles: (tiles: Record<string, number> | null) => void;
  height: number;
  both: boolean; // whether another one is beside it
}

export function Stage({ side, moment, theme, own, opened, wrong, onTiles, height, both }: StageProps) {
  const stuck = side.limit < side.timeline.steps && moment.step >= side.limit;
  const all = useMemo(() => panels(side, height), [side, height]);
  const counted = (way: Way, tensor: string) => {
    const key = side.timeline.keys.indexOf(`${way} ${tensor}`);
    return key < 0 ? null : moment.words[key]!;
  };
  return (
    <section class="stage" aria-label={`${side.schedule.name}, step by step`}>
      <div class="heading">
        <h3 title={side.schedule.title}>{side.schedule.name}</h3>
        <span class="title">{side.schedule.title}</span>
        {both && (
          <strong>{say(moment.moved)} of {say(side.timeline.moved)} words</strong>
        )}
        {side.more.length > 0 && (
          <span class="hint">This program has {side.more.join(" and ")} given, too; it moves the same words.</span>
        )}
        <Tiles side={side} own={own} wrong={wrong} onChange={onTiles} open={opened} />
      </div>
      <div class="scene">
        <div class="pictures">
          <p class={stuck ? "now wrong" : "now"}>{stuck ? stuckText(side, moment) : nowText(side, moment)}</p>
          <Matrices
            name={side.schedule.name} panels={all} show={(x) => shown(side, moment, x)} counted={counted}
            moment={moment} theme={theme} holds
          />
          <FastMemory side={side} moment={moment} />
        </div>
        <Listing name={side.program.name} lines={side.program.listing} line={moment.last?.line ?? -1} told={(k) => turnText(moment, k)} />
        <Counters side={side} moment={moment} />
      </div>
    </section>
  );
}

// Where the loop of a line is, if it is open.
function turnText(moment: Moment, line: number): string {
  const loop = moment.open.find((x) => x.line === line);
  return loop ? `${loop.name} = ${say(loop.turn + 1)} of ${say(loop.turns)}` : "";
}

const wordsOf = (n: number): string => `${say(n)} ${n === 1 ? "word" : "words"}`;

// The current line in words.
export function nowText(side: Side, moment: Moment): string {
  const { last } = moment;
  if (!last) return "Nothing has run yet";
  const code = side.program.listing[last.line]!.code.trim();
  if (last.kind === "turn") {
    const loop = moment.open[moment.open.length - 1]!;
    return `${loop.name} = ${say(loop.turn + 1)} of ${say(loop.turns)}: ${loop.axis} from ${say(loop.start)} to ${say(loop.stop - 1)}`;
  }
  return last.words > 0 || last.kind !== "op" ? `${code.replace(/\s+/g, " ")}: ${wordsOf(last.words)}` : code.replace(/\s+/g, " ");
}

function stuckText(side: Side, moment: Moment): string {
  const { last } = moment;
  const before = moment.held.slice(0, -1);
  const used = moment.held.reduce((n, x) => n + x.words, 0);
  const names = before.map((x) => x.buffer).join(", ");
  const beside = names ? ` and those of ${names}` : "";
  return `${last!.buffer} doesn't fit: its ${wordsOf(last!.words)}${beside} make ${say(used)}, and M is ${say(side.M)}`;
}
