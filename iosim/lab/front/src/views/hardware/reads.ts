// What an L2 that evicts the least recently used piece has to read, frame by frame.
import { Heap } from "../../engine/heap";
import type { Timeline } from "./sweeps";

// A cache of some pieces; `touch` says whether the piece was there.
export class Recent {
  private next: Int32Array; // towards older pieces
  private last: Int32Array;
  private size = 0;
  readonly held: Uint8Array;
  misses = 0;

  constructor(pieces: number, private room: number) {
    // The ring's start is one more place.
    this.next = new Int32Array(pieces + 1);
    this.last = new Int32Array(pieces + 1);
    this.next[pieces] = this.last[pieces] = pieces;
    this.held = new Uint8Array(pieces);
  }

  touch(piece: number): boolean {
    const { next, last, held } = this;
    const ring = held.length;
    const found = held[piece] === 1;
    if (found) {
      if (next[ring] === piece) return true;
      next[last[piece]!] = next[piece]!;
      last[next[piece]!] = last[piece]!;
    } else {
      this.misses++;
      held[piece] = 1;
      if (this.size === this.room) {
        const old = last[ring]!;
        held[old] = 0;
        last[ring] = last[old]!;
        next[last[old]!] = ring;
      } else this.size++;
    }
    next[piece] = next[ring]!;
    last[piece] = ring;
    last[next[ring]!] = piece;
    next[ring] = piece;
    return found;
  }
}

export interface Frame {
  misses: number; // so far, where all that is swept is kept in both halves of L2
  least: number; // where it is kept in one
  started: number; // items
  spread: number; // of what runs, 10th to 90th percentile of positions, as a share of the sweep
}

// An item on its way: when it reads which piece next.
interface Walker {
  time: number;
  item: number;
  piece: number;
}

const sooner = (a: Walker, b: Walker) => a.time < b.time || (a.time === b.time && a.item < b.item);

// A timeline played through two caches; frames are at equal times, the first at 0, the last at the end.
export class Play {
  readonly frames: Frame[] = [];
  readonly held: Uint8Array[] = []; // pieces in the smaller cache, by frame
  readonly missed: Uint8Array[] = []; // by lane: did its last read miss
  readonly lane: Int32Array; // of each item
  readonly lanes: number;
  readonly first: Int32Array; // items by the time that they start
  private readonly caches: [Recent, Recent];
  private readonly heap = new Heap<Walker>(sooner);
  private readonly misses: Uint8Array;
  private started = 0;
  private readonly running = new Set<number>();

  constructor(readonly time: Timeline, rooms: readonly [number, number], readonly count: number) {
    this.caches = [new Recent(time.pieces, rooms[0]), new Recent(time.pieces, rooms[1])];
    this.first = Int32Array.from({ length: time.items }, (_, k) => k);
    this.first.sort((a, b) => time.start[a]! - time.start[b]! || a - b);
    [this.lane, this.lanes] = lanes(time, this.first);
    this.misses = new Uint8Array(this.lanes);
  }

  get done(): boolean {
    return this.frames.length > this.count;
  }

  timeOf(frame: number): number {
    return frame === this.count ? this.time.until : (this.time.until * frame) / this.count;
  }

  // Goes on for about so many milliseconds; whether all is played.
  run(milliseconds: number): boolean {
    const stop = performance.now() + milliseconds;
    while (!this.done) {
      this.frame();
      if (performance.now() > stop) break;
    }
    return this.done;
  }

  private frame(): void {
    const { time, heap, first, caches } = this;
    const until = this.timeOf(this.frames.length);
    while (this.started < first.length && time.start[first[this.started]!]! <= until) {
      const item = first[this.started++]!;
      this.running.add(item);
      heap.push({ time: time.when(item, 0), item, piece: 0 });
    }
    for (let next = heap.first; next && next.time <= until; next = heap.first) {
      const { item, piece } = next;
      caches[1].touch(piece);
      this.misses[this.lane[item]!] = caches[0].touch(piece) ? 0 : 1;
      if (piece + 1 === time.pieces) heap.pop();
      else {
        next.piece++;
        next.time = time.when(item, next.piece);
        heap.replace(next);
      }
    }
    const at: number[] = [];
    for (const item of this.running) {
      if (time.end[item]! <= until) this.running.delete(item);
      else at.push(time.at(item, until));
    }
    this.frames.push({
      misses: caches[0].misses, least: caches[1].misses, started: this.started, spread: spread(at),
    });
    this.held.push(caches[0].held.slice());
    this.missed.push(this.misses.slice());
  }
}

// The distance between the 10th and the 90th percentile, as `iosim.gpu.l2.spread` has it.
export function spread(at: number[]): number {
  if (at.length < 2) return 0;
  at.sort((a, b) => a - b);
  const quantile = (q: number) => {
    const place = q * (at.length - 1);
    const low = Math.floor(place);
    return at[low]! + (place - low) * ((at[low + 1] ?? at[low]!) - at[low]!);
  };
  return quantile(0.9) - quantile(0.1);
}

// A lane for each item, free again when the item ends: how the items that run at once are drawn.
function lanes(time: Timeline, first: Int32Array): [Int32Array, number] {
  const lane = new Int32Array(time.items);
  let count = 0;
  const busy = new Heap<number>((a, b) => time.end[a]! < time.end[b]!);
  for (const item of first) {
    const over = busy.first;
    const free = over !== undefined && time.end[over]! <= time.start[item]!;
    lane[item] = free ? lane[busy.pop()!]! : count++;
    busy.push(item);
  }
  return [lane, count];
}
