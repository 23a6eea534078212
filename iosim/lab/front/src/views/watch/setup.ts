// From what is typed to what is watched: the form, the sizes, the tiles, and what is wrong with them.
import { best, bind, peak, searchable, within, type BlockMask, type Env, type Instance, type ProgramData, type Steps } from "../../engine";
import type { LabData, Params } from "../../types";
import { formOf, givenOf, programOf, sizesOf, type Form, type Schedule } from "../../forms/family";
import { readGiven, undivided, wholeOf, type Given } from "../../forms/given";
import { masksOf, readBlocks, tilesFor, type Rows } from "./blocks";
import { nearby } from "./near";
import type { WatchData } from "./data";
import { fewest, type Found } from "./searching";
import { MOST_STEPS, Timeline } from "./timeline";

const AT_ONCE_MS = 30; // a search that takes longer goes on beside the view

export interface Choice extends Given {
  blocks: Rows; // the pattern of a block mask
}

export interface Side {
  schedule: Schedule;
  program: ProgramData;
  form: Form;
  more: string[]; // options that the form has beside those that are given
  sizes: Env;
  tiles: Env;
  how: string; // how the tiles were chosen
  marked: boolean; // whether a pattern of blocks is chosen in the view
  search: Steps<Found> | null; // for the fewest words, where it has not ended
  instance: Instance;
  timeline: Timeline;
  M: number;
  peak: number;
  smallest: number; // the least M that works: with one's own tiles, or with any
  limit: number; // the last step that can be shown: at the next one fast memory is too full
}

export type Wrong = { field: string; message: string };
export type Tried = { side: Side } | { wrong: Wrong };

export const isWrong = (x: Tried): x is { wrong: Wrong } => "wrong" in x;

export class World {
  private readonly sides = new Map<string, Tried>();
  private readonly learned = new Map<string, Found>();

  constructor(
    readonly data: WatchData, readonly lab: LabData, readonly packed: readonly ProgramData[], private readonly atOnce = AT_ONCE_MS,
  ) {}

  schedule(name: string): Schedule | undefined {
    return this.data.schedules.find((x) => x.name === name);
  }

  // A schedule bound to what is chosen, with one's own tiles or the best ones.
  side(schedule: Schedule, choice: Choice, own: Env | null): Tried {
    const key = keyOf(schedule, choice, own);
    const known = this.sides.get(key);
    if (known) return known;
    if (this.sides.size > 16) this.sides.clear();
    const made = this.make(schedule, choice, own);
    this.sides.set(key, made);
    return made;
  }

  // What a search found in the end, or Python.
  learn(schedule: Schedule, choice: Choice, found: Found): void {
    const key = keyOf(schedule, choice, null);
    this.learned.set(key, found);
    this.sides.delete(key);
  }

  // What can always be shown: the schedule of the beginning, with the sizes of the beginning.
  fallback(): Side {
    const { start } = this.data;
    const first = read(this.data, {});
    const tried = this.side(this.schedule(start.algorithm) ?? this.data.schedules[0]!, first.choice, start.tiles);
    if (isWrong(tried)) throw new Error(tried.wrong.message);
    return tried.side;
  }

  private make(schedule: Schedule, choice: Choice, own: Env | null): Tried {
    const form = formOf(schedule, choice.options);
    if (typeof form === "string") return { wrong: { field: "options", message: form } };
    const { typed } = choice;
    const part = undivided(this.data, schedule, form, typed);
    if (part) return { wrong: part };
    const program = programOf(form, this.packed, this.lab);
    const sizes = sizesOf(form, typed);
    const M = typed.M!;
    const learned = this.learned.get(keyOf(schedule, choice, null));
    const marked = Object.keys(program.masks).length > 0 && !this.data.start.blocks;
    try {
      const found: Found & { search?: Steps<Found> } = own ? { tiles: own }
        : learned ?? (marked ? this.blocked(program, sizes, M, choice.blocks) : this.tiles(schedule, form, program, sizes, M));
      const { tiles, search = null } = found;
      const masks = this.masks(program, sizes, tiles, choice.blocks);
      if (typeof masks === "string") return wrong("blocks", masks);
      const instance = bind(program, sizes, tiles, masks);
      const timeline = new Timeline(instance);
      if (!(timeline.steps <= MOST_STEPS))
        return wrong("N", `${schedule.name} has more than 2^52 steps here: choose smaller sizes`);
      const held = Number(peak(instance));
      const { smallest = held } = found;
      const over = held > M ? timeline.overflow(M) : 0;
      const how = own ? "your own" : marked ? "for the blocks" : search ? "few words, while the fewest are searched"
        : searchable(program) ? "fewest words" : "few words, by trying";
      return { side: {
        schedule, program, form, more: givenOf(schedule, form).filter((x) => !choice.options.has(x) && !schedule.needs.includes(x)), sizes, tiles, how, marked, search, instance, timeline, M, peak: held, smallest,
        limit: over > 0 ? over : timeline.steps,
      } };
    } catch (error) {
      const field = (error as { field?: string | null }).field ?? "tiles";
      return wrong(field, (error as Error).message);
    }
  }

  // One's own block masks, or those of a pattern.
  private masks(program: ProgramData, sizes: Env, tiles: Env, pattern: Rows): Record<string, BlockMask> | string {
    return this.data.start.blocks ?? masksOf(program, sizes, tiles, pattern);
  }

  // Tiles that make the blocks of a pattern, or halves of them until they fit.
  private blocked(program: ProgramData, sizes: Env, M: number, pattern: Rows): Found {
    const tiles = tilesFor(program, sizes, pattern);
    let held = Infinity;
    for (let last = tiles; ; ) {
      const masks = this.masks(program, sizes, tiles, pattern);
      if (typeof masks === "string") return { smallest: held, tiles: last };
      held = Number(peak(bind(program, sizes, tiles, masks)));
      const largest = Object.keys(tiles).reduce((a, b) => (tiles[b]! > tiles[a]! ? b : a));
      if (held <= M) return { tiles };
      if (tiles[largest] === 1) return { smallest: held, tiles };
      last = { ...tiles };
      tiles[largest] = Math.ceil(tiles[largest]! / 2);
    }
  }

  // The best tiles; where the search for them takes long, some that are near the best ones, and the search.
  private tiles(schedule: Schedule, form: Form, program: ProgramData, sizes: Env, M: number): Found & { search?: Steps<Found> } {
    if (!searchable(program)) return this.near(schedule, form, program, sizes, M);
    const search = fewest(program, sizes, M);
    return within(search, this.atOnce) ?? { ...this.near(schedule, form, program, sizes, M), search };
  }

  private near(schedule: Schedule, form: Form, program: ProgramData, sizes: Env, M: number): Found {
    const masks = this.data.start.blocks ?? {};
    const least = Object.fromEntries(program.tree.params.map((p) => [p.name, p.least]));
    const held = Number(peak(bind(program, sizes, least, masks)));
    if (held > M) return { smallest: held, tiles: least };
    const plain = this.unmasked(schedule, form);
    const dense = plain && programOf(plain, this.packed, this.lab);
    if (!dense || dense === program || !searchable(dense)) return { tiles: nearby(program, sizes, least, M, masks) };
    const found = best(dense, Object.fromEntries(dense.sizes.map((x) => [x, sizes[x]!])), M);
    const from = "smallest" in found ? least : found.tiles;
    const mine = program.tree.params.map((p) => [p.name, from[p.name] ?? p.least]);
    return { tiles: nearby(program, sizes, Object.fromEntries(mine), M, masks) };
  }

  private unmasked(schedule: Schedule, form: Form): Form | undefined {
    const sizes = givenOf(schedule, form).filter((x) => this.data.options[x]?.kind === "size");
    return schedule.forms[sizes.join(" ")];
  }
}

const keyOf = (schedule: Schedule, choice: Choice, own: Env | null): string =>
  JSON.stringify([schedule.name, [...choice.options].sort(), choice.typed, choice.blocks, own]);

// What Python is asked for the best tiles of a side: the problem as it is typed.
export function asked(data: WatchData, side: Side, choice: Choice): Record<string, unknown> {
  const { schedule, M, sizes } = side;
  if (data.schedules.length === 1) return { algo: schedule.name, sizes, M };
  const options = new Set([...choice.options, ...schedule.needs]);
  const names = [...schedule.fields, ...Object.keys(data.options).filter((x) => options.has(x))];
  const typed: Record<string, unknown> = Object.fromEntries(names.map((x) => [x, choice.words[x] ?? choice.typed[x]]));
  if (options.has("causal")) typed.causal = true;
  const limit = (x: string) => (options.has(x) ? choice.typed[x]! : null);
  if (options.has("left") || options.has("right")) typed.window = [limit("left"), limit("right")];
  return { algo: schedule.name, sizes: typed, M };
}

function wrong(field: string, message: string): Tried {
  return { wrong: { field, message } };
}

// -- what a link says ----------------------------------------------------------------------------

export interface Read {
  choice: Choice;
  algorithm: string;
  versus: string; // "" for none
  own: readonly [Env | null, Env | null]; // tiles that were given, of both sides
  at: number; // steps, or words where two are compared; Infinity: the end
  wrong: string[]; // what of the link was not understood
}

export function read(data: WatchData, params: Params): Read {
  const wrong: string[] = [];
  const known = data.schedules.map((x) => x.name);
  const name = (key: string, fallback: string): string => {
    const text = params[key];
    if (text === undefined || known.includes(text)) return text ?? fallback;
    wrong.push(`the link's ${key} is “${text}”, which is not a schedule here`);
    return fallback;
  };
  const given = readGiven(data, data.start.sizes, params, wrong);
  const algorithm = name("algo", data.start.algorithm);
  const versus = name("vs", "");
  const [first] = Object.values(data.blocks);
  const blocks = params.blocks === undefined ? first : readBlocks(params.blocks, data.blocks);
  if (!blocks && first) wrong.push("the link's blocks are neither a pattern here nor rows of 0 and 1");
  const tiles = (key: string, first: Env | null): Env | null => {
    const text = params[key];
    if (text === undefined) return first;
    if (text === "best") return null;
    const pairs = text.split(",").map((x) => /^(\w+)=(\d+)$/.exec(x));
    if (pairs.every((x) => x !== null)) return Object.fromEntries(pairs.map((x) => [x![1]!, Number(x![2])]));
    wrong.push(`the link's ${key} is “${text}”; tiles are written B_r=64,B_c=16`);
    return first;
  };
  const start = algorithm === data.start.algorithm ? data.start.tiles : null;
  const at = params.at === "end" ? Infinity : wholeOf(params, "at", 0, 0, Number.MAX_SAFE_INTEGER, wrong);
  return {
    choice: { ...given, blocks: blocks ?? first ?? ["1"] }, algorithm, versus, own: [tiles("tiles", start), tiles("vtiles", null)], at, wrong,
  };
}

export const tilesText = (tiles: Env): string => Object.entries(tiles).map(([x, v]) => `${x}=${v}`).join(",");
