// Going through a schedule: play, steps, the next transfer, a loop's next iteration, any position.
import { Button, Player, Select, Slider, say } from "../../ui";
import type { Side } from "./setup";

export interface Going {
  play: (on: boolean) => void;
  step: (by: 1 | -1) => void;
  transfer: (by: 1 | -1) => void;
  turn: (by: 1 | -1) => void;
  to: (position: number) => void;
  end: (end: "first" | "last") => void;
}

interface TransportProps {
  side: Side; // whose loops can be chosen
  both: boolean; // two schedules, on a clock of words
  position: number;
  last: number;
  moved: readonly [number, number] | null; // words so far and in all, of one schedule
  going: Going;
  playing: boolean;
  rate: number;
  onRate: (rate: number) => void;
  loop: number; // a line
  onLoop: (line: number) => void;
}

const STEPS = [1, 4, 16, 64, 256, 1024, 16_384, 262_144];
const WORDS = [64, 256, 1024, 4096, 16_384, 65_536, 2 ** 20, 2 ** 24];
export const firstRate = (both: boolean): number => (both ? 16_384 : 4);

const codeOf = (side: Side, line: number): string => side.program.listing[line]!.code.trim().replace(/:$/, "");

export function Transport({ side, both, position, last, moved, going, playing, rate, onRate, loop, onLoop }: TransportProps) {
  const unit = both ? "words" : "steps";
  return (
    <div class="transport">
      <Player
        playing={playing}
        onPlay={going.play}
        onStep={(by) => going.step(by > 0 ? 1 : -1)}
        onEnd={going.end}
        rate={rate}
        rates={both ? WORDS : STEPS}
        unit={unit}
        onRate={onRate}
      >
        {!both && (
          <>
            <Button label="Previous transfer" onClick={() => going.transfer(-1)}>◁ transfer</Button>
            <Button label="Next transfer" onClick={() => going.transfer(1)}>transfer ▷</Button>
            <Select
              label="Loop"
              value={String(loop)}
              options={side.timeline.loops.map((x) => ({ value: String(x.line), label: `${x.line + 1}: ${codeOf(side, x.line)}` }))}
              onChange={(x) => onLoop(Number(x))}
            />
            <Button label="Previous iteration of the loop" onClick={() => going.turn(-1)}>◁ iteration</Button>
            <Button label="Next iteration of the loop" onClick={() => going.turn(1)}>iteration ▷</Button>
          </>
        )}
      </Player>
      <div class="position">
        <Slider
          label={both ? "Words moved, slider" : "Step, slider"}
          bare
          min={0}
          max={last}
          value={position}
          text={`${say(position)} of ${say(last)} ${unit}`}
          onChange={going.to}
        />
        <span class="where">
          <span data-position={position}>{say(position)}</span> of {say(last)} {both ? "words moved" : "steps"}
          {moved && (
            <>
              , <span data-moved={moved[0]}>{say(moved[0])}</span> of {say(moved[1])} words moved
            </>
          )}
        </span>
      </div>
    </div>
  );
}
