// Answers questions about sweeps in node, for tests: a list of questions as JSON on standard input,
// a list of answers on standard output.
import { Play, spread } from "./reads";
import { inStep, room } from "./settings";
import { readings, recorded, timeline, type Timeline } from "./sweeps";

declare const process: {
  stdin: AsyncIterable<Uint8Array>;
  stdout: { write(text: string): void };
};

const when = (time: Timeline) =>
  Array.from({ length: time.items }, (_, item) =>
    Array.from({ length: time.pieces }, (_, piece) => time.when(item, piece)),
  );

// What two caches miss, by frame; and how many lanes the sweeps take.
function played(time: Timeline, rooms: [number, number], count: number) {
  const play = new Play(time, rooms, count);
  while (!play.run(1000));
  const held = play.held.map((x) => x.reduce((a, b) => a + b, 0));
  return { frames: play.frames, held, lanes: play.lanes, lane: [...play.lane], start: [...time.start], end: [...time.end] };
}

const ASK: Record<string, (q: any) => unknown> = {
  when: ({ sweeps, pieces, pace }) => when(timeline(sweeps, pieces, pace)),
  at: ({ sweeps, pieces, pace, item, times }) => {
    const time = timeline(sweeps, pieces, pace);
    return times.map((t: number) => time.at(item, t));
  },
  play: ({ sweeps, pieces, pace, rooms, count }) => played(timeline(sweeps, pieces, pace), rooms, count),
  recorded: async ({ clock, items, pieces, rooms, count }) => {
    const { start, end } = await readings(clock, items);
    return played(recorded(start, end, pieces), rooms, count);
  },
  room: ({ shape, pieces, capacity }) => room(shape, pieces, capacity),
  inStep: ({ shape, items, programs, l2, share }) => inStep(shape, items, programs, l2, share),
  spread: ({ at }) => spread(at),
};

const decoder = new TextDecoder();
let text = "";
for await (const part of process.stdin) text += decoder.decode(part, { stream: true });
const questions = JSON.parse(text) as { ask: string }[];
const answers: unknown[] = [];
for (const q of questions) answers.push(await ASK[q.ask]!(q));
process.stdout.write(JSON.stringify(answers));
