// The timeline over JSON lines, for tests: moments of one instance, and what is found from them.
import { bind, type ProgramData } from "../../engine";
import { serve, type Asked } from "../../engine/lines";
import { Timeline, type Moment } from "./timeline";

interface Ask extends Asked {
  steps: number[]; // at which moments are asked for
  capacities: number[]; // for which an overflow is
}

function told({ step, last, held, open, words, moved }: Moment): unknown {
  return {
    step, moved, words: [...words], open: open.map((x) => [x.line, x.start, x.stop]),
    last: last && [last.kind, last.line, last.buffer, last.tensor, last.ranges, last.words],
    held: held.map((x) => [x.buffer, x.words]),
  };
}

await serve((ask: Ask, program: ProgramData) => {
  const line = new Timeline(bind(program, ask.sizes, ask.tiles, ask.masks));
  const moments = ask.steps.map((x) => line.at(x));
  const tensors = program.tree.tensors.map((x) => x.name);
  return {
    steps: line.steps, moved: line.moved, keys: line.keys,
    moments: moments.map((x) => ({
      ...(told(x) as object),
      next: line.near(x, line.transfers(), 1).step,
      before: line.near(x, line.transfers(), -1).step,
      turns: line.loops.map((loop) => line.near(x, [loop.line], 1).step),
      back: line.at(x.step - 1).step,
      clock: line.atWords(x.moved).step,
      reached: line.reaching(x.moved).step,
      trails: Object.fromEntries(tensors.map((t) => [t, line.trail(x, t, 4)])),
    })),
    loops: line.loops.map((x) => x.line),
    overflows: ask.capacities.map((x) => line.overflow(x)),
  };
});
