// From what is typed to what is watched: the form, the sizes, the tiles, and what is wrong with them.
import { best, bind, peak, searchable, type BlockMask, type Env, type Instance, type ProgramData, type Steps } from "../../engine";
import type { LabData, Params } from "../../types";
import { parseWhole, say } from "../../ui";
import { masksOf, readBlocks, tilesFor, type Rows } from "./blocks";
import { nearby } from "./near";
import { programOf, valueOf, type Form, type Schedule, type WatchData } from "./data";
import { fewest, within, type Found } from "./searching";
import { MOST_STEPS, Timeline } from "./timeline";

const AT_ONCE_MS = 30; // a search that takes longer goes on beside the view

export interface Choice {
  typed: Env; // every number, whether it is in use or not
  options: ReadonlySet<string>; // those that are given
  words: Readonly<Record<string, string>>; // of the options that are a choice
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

  // The form in which a schedule solves what is chosen, or why it can't.
  form(schedule: Schedule, options: ReadonlySet<string>): Form | string {
    const all = new Set([...options, ...schedule.needs]);
    const lacks = [...all].filter((x) => !schedule.options.includes(x) && !schedule.fields.includes(x));
    const form = this.nearest(schedule, [...all].filter((x) => !schedule.fields.includes(x)));
    if (form && !lacks.length) return form;
    const what = lacks.map((x) => (x === "left" || x === "right" ? "window" : x));
    return `${schedule.name} takes no ${[...new Set(what)].join(" and no ") || "such options"}`;
  }

  // The form with these options, and as few others as can be given without a change.
  private nearest(schedule: Schedule, options: readonly string[]): Form | undefined {
    const more = Object.keys(schedule.forms).flatMap((key) => {
      const given = key.split(" ").filter(Boolean);
      const extra = given.filter((x) => !options.includes(x));
      const fits = options.every((x) => given.includes(x)) && extra.every((x) => schedule.fills.includes(x));
      return fits ? [{ key, extra: extra.length }] : [];
    });
    const least = more.sort((a, b) => a.extra - b.extra)[0];
    return least && schedule.forms[least.key];
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
    const tried = this.side(this.schedule(start.algorithm)!, first.choice, start.tiles);
    if (isWrong(tried)) throw new Error(tried.wrong.message);
    return tried.side;
  }

  private make(schedule: Schedule, choice: Choice, own: Env | null): Tried {
    const form = this.form(schedule, choice.options);
    if (typeof form === "string") return { wrong: { field: "options", message: form } };
    const { typed } = choice;
    for (const [name, { divides: whole }] of Object.entries(this.data.options)) {
      const used = whole && (name in form.sizes || schedule.fields.includes(name));
      if (used && typed[whole]! % typed[name]!)
        return wrong(name, `${name} = ${say(typed[name]!)} doesn't divide ${whole} = ${say(typed[whole]!)}: give a divisor`);
    }
    const program = programOf(form, this.packed, this.lab);
    const sizes = Object.fromEntries(Object.entries(form.sizes).map(([x, told]) => [x, valueOf(told, typed)]));
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

// The options that a form of a schedule is traced for.
const givenOf = (schedule: Schedule, form: Form): string[] =>
  Object.entries(schedule.forms).find(([, x]) => x === form)![0].split(" ").filter(Boolean);

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
  mask: string;
  algorithm: string;
  versus: string; // "" for none
  own: readonly [Env | null, Env | null]; // tiles that were given, of both sides
  at: number; // steps, or words where two are compared; Infinity: the end
  wrong: string[]; // what of the link was not understood
}

export function read(data: WatchData, params: Params): Read {
  const wrong: string[] = [];
  const number = (name: string, first: number, least: number, most: number): number => {
    const text = params[name];
    if (text === undefined) return first;
    const x = parseWhole(text);
    if (x !== undefined && x >= least && x <= most) return x;
    wrong.push(`the link's ${name} is “${text}”, not a whole number in ${say(least)} to ${say(most)}`);
    return first;
  };
  const typed: Env = {};
  for (const [name, { first, least, most }] of Object.entries(data.fields)) {
    const fallback = typed[data.options[name]?.follows ?? ""];
    const start = data.start.sizes[name] ?? (name in params ? first : (fallback ?? first));
    typed[name] = number(name, start, least, most);
  }
  const known = data.schedules.map((x) => x.name);
  const name = (key: string, fallback: string): string => {
    const text = params[key];
    if (text === undefined || known.includes(text)) return text ?? fallback;
    wrong.push(`the link's ${key} is “${text}”, which is no schedule here`);
    return fallback;
  };
  const algorithm = name("algo", data.start.algorithm);
  const versus = name("vs", "");
  const mask = params.mask ?? "";
  if (mask && !(mask in data.masks)) wrong.push(`the link's mask is “${mask}”; there are ${Object.keys(data.masks).join(", ")}`);
  const options = new Set(data.masks[mask] ?? []);
  const words: Record<string, string> = {};
  for (const [name, { kind, choices }] of Object.entries(data.options)) {
    if (kind === "size" && name in params) options.add(name);
    if (kind === "count" && typed[name]! > 0 && belongs(data, name, mask)) options.add(name);
    const text = params[name];
    if (kind !== "choice" || text === undefined || text === choices[0]) continue;
    if (choices.includes(text)) {
      words[name] = text;
      if (belongs(data, name, mask)) options.add(name);
    } else wrong.push(`the link's ${name} is “${text}”; there are ${choices.join(", ")}`);
  }
  const [first] = Object.values(data.blocks);
  const blocks = params.blocks === undefined ? first : readBlocks(params.blocks, data.blocks);
  if (!blocks && first) wrong.push("the link's blocks are no pattern here, and no rows of 0 and 1 as drawn ones are");
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
  const at = params.at === "end" ? Infinity : number("at", 0, 0, Number.MAX_SAFE_INTEGER);
  return {
    choice: { typed, options, words, blocks: blocks ?? first ?? ["1"] }, mask: mask in data.masks ? mask : Object.keys(data.masks)[0] ?? "",
    algorithm, versus, own: [tiles("tiles", start), tiles("vtiles", null)], at, wrong,
  };
}

// Whether an option says something beside a mask: whether some program is traced for both.
function belongs(data: WatchData, option: string, mask: string): boolean {
  const [all, here] = [new Set(Object.values(data.masks).flat()), data.masks[mask] ?? []];
  return data.schedules.some((x) => Object.keys(x.forms).some((key) => {
    const given = key.split(" ");
    return given.includes(option) && [...all].every((m) => given.includes(m) === here.includes(m));
  }));
}

export const tilesText = (tiles: Env): string => Object.entries(tiles).map(([x, v]) => `${x}=${v}`).join(",");
