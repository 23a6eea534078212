// Going through a schedule: play, steps, the next transfer, a loop's next iteration, any position.
import { Button, Player, Select, Slider, say } from "../../ui";

export interface Going {
  play: (on: boolean) => void;
  step: (by: 1 | -1) => void;
  transfer?: (by: 1 | -1) => void; // where a step may be none
  turn: (by: 1 | -1) => void;
  to: (position: number) => void;
  end: (end: "first" | "last") => void;
}

interface TransportProps {
  unit: "steps" | "words"; // of the clock: words where two schedules are compared
  position: number;
  last: number;
  moved: readonly [number, number] | null; // words so far and in all, of one schedule
  going: Going;
  playing: boolean;
  rate: number;
  onRate: (rate: number) => void;
  loops: readonly { line: number; label: string }[]; // that can be chosen
  loop: number; // a line
  onLoop: (line: number) => void;
}

const STEPS = [1, 4, 16, 64, 256, 1024, 16_384, 262_144];
const WORDS = [64, 256, 1024, 4096, 16_384, 65_536, 2 ** 20, 2 ** 24];
export const firstRate = (both: boolean): number => (both ? 16_384 : 4);

export function Transport({ unit, position, last, moved, going, playing, rate, onRate, loops, loop, onLoop }: TransportProps) {
  const both = unit === "words";
  const { transfer } = going;
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
            {transfer && <Button label="Previous transfer" onClick={() => transfer(-1)}>◁ transfer</Button>}
            {transfer && <Button label="Next transfer" onClick={() => transfer(1)}>transfer ▷</Button>}
            <Select
              label="Loop"
              value={String(loop)}
              options={loops.map((x) => ({ value: String(x.line), label: x.label }))}
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
