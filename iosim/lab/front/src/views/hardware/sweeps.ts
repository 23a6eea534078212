// When each item reads each piece of its sweep: drawn as `iosim.gpu.sweeps` draws it, or recorded.
import { Heap } from "../../engine/heap";

export interface Sweeps {
  items: number;
  programs: number; // at once
  blocks: number; // of a sweep
  drift: number; // per mille that an item may take longer than the fastest
  every: number; // blocks between two barriers; 0 without
  seed: number;
}

export interface Timeline {
  items: number;
  pieces: number; // that a sweep is cut into
  start: Float64Array; // of each item, in ticks
  end: Float64Array;
  until: number; // the last end
  when: (item: number, piece: number) => number; // it is in the middle of the piece
  at: (item: number, time: number) => number; // how far it is, 0 to 1, while it runs
}

// A number below 2³² for each item, by a hash of item and seed.
function drawn(seed: number, item: number): number {
  let x = (Math.imul(item, 0x9e3779b1) + Math.imul(seed, 0x85ebca6b)) >>> 0;
  x = Math.imul(x ^ (x >>> 16), 0x7feb352d) >>> 0;
  x = Math.imul(x ^ (x >>> 15), 0x846ca68b) >>> 0;
  return (x ^ (x >>> 16)) >>> 0;
}

// Ticks that each item takes for half a block.
export function paces(s: Sweeps, pace: number): Float64Array {
  return Float64Array.from({ length: s.items }, (_, item) => pace + ((s.drift * (drawn(s.seed, item) >>> 16)) >>> 16));
}

export function timeline(s: Sweeps, pieces: number, pace: number): Timeline {
  return s.every ? locked(s, pieces, pace) : free(s, pieces, pace);
}

// A new item starts where one ends.
function free(s: Sweeps, pieces: number, pace: number): Timeline {
  const own = paces(s, pace);
  const [start, end] = [new Float64Array(s.items), new Float64Array(s.items)];
  const ends = new Heap<number>((a, b) => a < b);
  for (let k = 0; k < s.items; k++) {
    start[k] = k < s.programs ? 0 : ends.pop()!;
    end[k] = start[k]! + 2 * s.blocks * own[k]!;
    ends.push(end[k]!);
  }
  const half = s.blocks / pieces;
  return whole(pieces, start, end, (item, piece) => start[item]! + own[item]! * (2 * piece + 1) * half);
}

// All wait at the start of a wave and after every so many blocks, for the slowest of the wave.
function locked(s: Sweeps, pieces: number, pace: number): Timeline {
  const own = paces(s, pace);
  const waves = Math.ceil(s.items / s.programs);
  const [slowest, begin] = [new Float64Array(waves), new Float64Array(waves + 1)];
  for (let w = 0; w < waves; w++) {
    for (let k = w * s.programs; k < Math.min(s.items, (w + 1) * s.programs); k++)
      slowest[w] = Math.max(slowest[w]!, own[k]!);
    begin[w + 1] = begin[w]! + 2 * s.blocks * slowest[w]!;
  }
  const stretch = 2 * s.every;
  const reaches = (item: number, half: number) => {
    const w = Math.floor(item / s.programs);
    const rest = half % stretch;
    return begin[w]! + (half - rest) * slowest[w]! + rest * own[item]!;
  };
  const start = Float64Array.from(own, (_, item) => begin[Math.floor(item / s.programs)]!);
  const end = Float64Array.from(own, (_, item) => reaches(item, 2 * s.blocks));
  const half = s.blocks / pieces;
  const found = whole(pieces, start, end, (item, piece) => reaches(item, (2 * piece + 1) * half));
  const at = (item: number, time: number) => {
    const w = Math.floor(item / s.programs);
    const passed = Math.floor((time - begin[w]!) / (stretch * slowest[w]!));
    const since = time - begin[w]! - passed * stretch * slowest[w]!;
    return Math.min(1, (passed * stretch + Math.min(stretch, since / own[item]!)) / (2 * s.blocks));
  };
  return { ...found, at };
}

// Sweeps whose starts and ends are known; between the two an item moves evenly.
export function recorded(start: Float64Array, end: Float64Array, pieces: number): Timeline {
  // In ticks of which a piece has a whole number of halves, so that no time is rounded.
  const [from, to] = [start, end].map((x) => x.map((t) => t * 2 * pieces)) as [Float64Array, Float64Array];
  return whole(pieces, from, to, (item, piece) => from[item]! + (end[item]! - start[item]!) * (2 * piece + 1));
}

function whole(pieces: number, start: Float64Array, end: Float64Array, when: Timeline["when"]): Timeline {
  const at = (item: number, time: number) => (time - start[item]!) / (end[item]! - start[item]!);
  return { items: start.length, pieces, start, end, until: end.reduce((a, b) => Math.max(a, b), 0), when, at };
}

// Clock readings as `iosim.lab.data.hardware.clock_text` writes them.
export async function readings(text: string, items: number): Promise<{ start: Float64Array; end: Float64Array }> {
  const packed = Uint8Array.from(atob(text), (x) => x.charCodeAt(0));
  const opened = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(opened).arrayBuffer());
  let k = 0;
  const column = () => {
    let last = 0;
    return Float64Array.from({ length: items }, () => {
      let [found, factor] = [0, 1];
      while (bytes[k]! > 127) {
        found += (bytes[k++]! & 127) * factor;
        factor *= 128;
      }
      found += bytes[k++]! * factor;
      last += found % 2 ? -(found + 1) / 2 : found / 2;
      return last;
    });
  };
  return { start: column(), end: column() };
}
