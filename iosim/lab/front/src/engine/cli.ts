/** The engine over JSON lines, for tests and measurements.  Words are strings. */

import { serve, type Asked } from "./lines";
import { best, bind, count, InputError, peak, plane, searchable, smallest, walk } from "./index";
import type { Instance, ProgramData } from "./types";

interface Ask extends Asked {
  do?: "count" | "peak" | "plane" | "walk" | "best" | "smallest" | "time";
  M: number; most?: number;
  x: string; y: string; // tiles of a plane
}

function answer(ask: Ask, program: ProgramData): unknown {
  const bound = (): Instance => bind(program, ask.sizes, ask.tiles, ask.masks);
  switch (ask.do) {
    case "count": return texts(count(bound()));
    case "peak": return String(peak(bound()));
    case "plane": {
      const { words, peak } = plane(bound(), ask.x, ask.y);
      const [a, b] = [ask.tiles[ask.x]!, ask.tiles[ask.y]!];
      return { words: words(a, b), peak: peak(a, b) };
    }
    case "walk": return walked(bound());
    case "best":
    case "smallest": {
      if (!searchable(program)) throw new InputError(`${program.name}: tiles are not searched here`);
      if (ask.do === "smallest") return smallest(program, ask.sizes);
      const found = best(program, ask.sizes, ask.M);
      return "smallest" in found ? found : { ...found, words: String(found.words), peak: String(found.peak) };
    }
    case "time": return timed(ask, program);
    default: throw new Error(`unknown question ${ask.do}`);
  }
}

function texts(words: Record<string, bigint>): Record<string, string> {
  return Object.fromEntries(Object.entries(words).map(([key, x]) => [key, String(x)]));
}

/** Every transfer, the largest occupancy on the way, what is left in the end, and lines of events. */
function walked(instance: Instance): unknown {
  const transfers: unknown[] = [];
  const lines = new Set<string>();
  let [held, peak] = [0, 0];
  for (const event of walk(instance)) {
    lines.add(`${event.kind} ${event.line}`);
    if (event.kind === "load" || event.kind === "store") transfers.push([event.kind, event.tensor, event.ranges, event.words]);
    if (event.kind === "load" || event.kind === "alloc") held += event.words;
    if (event.kind === "free") held -= event.words;
    peak = Math.max(peak, held);
  }
  return { transfers, peak, left: held, lines: [...lines].sort() };
}

/** Milliseconds of each question about one instance, and of at most `most` events. */
function timed(ask: Ask, program: ProgramData): unknown {
  const clock = (times: number, run: () => unknown): number => {
    run();
    const start = performance.now();
    for (let k = 0; k < times; k++) run();
    return (performance.now() - start) / times;
  };
  const instance = bind(program, ask.sizes, ask.tiles, ask.masks);
  let events = 0;
  const start = performance.now();
  for (const _ of walk(instance)) if (++events >= (ask.most ?? Infinity)) break;
  const spent = performance.now() - start;
  return {
    bind: clock(100, () => bind(program, ask.sizes, ask.tiles, ask.masks)),
    count: clock(100, () => count(instance)), peak: clock(100, () => peak(instance)),
    best: searchable(program) ? clock(3, () => best(program, ask.sizes, ask.M)) : null,
    events, walk: spent,
  };
}

await serve(answer);
