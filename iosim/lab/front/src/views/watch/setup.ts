// From what is typed to what is watched: the form, the sizes, the tiles, and what is wrong with them.
import { best, bind, peak, searchable, type Env, type Instance, type ProgramData } from "../../engine";
import type { LabData, Params } from "../../types";
import { parseWhole, say } from "../../ui";
import { nearby } from "./near";
import { programOf, valueOf, type Form, type Schedule, type WatchData } from "./data";
import { MOST_STEPS, Timeline } from "./timeline";

export interface Choice {
  typed: Env; // every number, whether it is in use or not
  options: ReadonlySet<string>; // causal, left, right, N_k, kv_heads
}

export interface Side {
  schedule: Schedule;
  program: ProgramData;
  form: Form;
  sizes: Env;
  tiles: Env;
  how: string; // how the tiles were chosen
  exact: boolean; // whether no other tiles move fewer words, or they are one's own
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
  private readonly learned = new Map<string, Env>();

  constructor(readonly data: WatchData, readonly lab: LabData, readonly packed: readonly ProgramData[]) {}

  schedule(name: string): Schedule | undefined {
    return this.data.schedules.find((x) => x.name === name);
  }

  // The form in which a schedule solves what is chosen, or why it can't.
  form(schedule: Schedule, options: ReadonlySet<string>): Form | string {
    const all = new Set([...options, ...schedule.needs]);
    const lacks = [...all].filter((x) => !schedule.options.includes(x) && !schedule.fields.includes(x));
    const form = schedule.forms[[...all].filter((x) => !schedule.fields.includes(x)).sort().join(" ")];
    if (form && !lacks.length) return form;
    const what = lacks.map((x) => (x === "left" || x === "right" ? "window" : x));
    return `${schedule.name} takes no ${[...new Set(what)].join(" and no ") || "such options"}`;
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

  // Tiles that Python found.
  learn(schedule: Schedule, choice: Choice, tiles: Env): void {
    const key = keyOf(schedule, choice, null);
    this.learned.set(key, tiles);
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
    const shared = "kv_heads" in form.sizes || schedule.fields.includes("kv_heads");
    if (shared && typed.heads! % typed.kv_heads!)
      return wrong("kv_heads", `kv_heads = ${say(typed.kv_heads!)} doesn't divide heads = ${say(typed.heads!)}: give a divisor`);
    const program = programOf(form, this.packed, this.lab);
    const sizes = Object.fromEntries(Object.entries(form.sizes).map(([x, told]) => [x, valueOf(told, typed)]));
    const M = typed.M!;
    const learned = this.learned.get(keyOf(schedule, choice, null));
    const found = own ?? learned ?? this.tiles(schedule, form, program, sizes, M);
    const tiles = "smallest" in found ? (found.tiles as Env) : (found as Env);
    try {
      const instance = bind(program, sizes, tiles, this.data.start.blocks ?? {});
      const timeline = new Timeline(instance);
      if (!(timeline.steps <= MOST_STEPS))
        return wrong("N", `${schedule.name} has more than 2^52 steps here: choose smaller sizes`);
      const held = Number(peak(instance));
      const smallest = "smallest" in found ? Number(found.smallest) : held;
      const over = held > M ? timeline.overflow(M) : 0;
      const exact = searchable(program) || learned !== undefined;
      const how = own ? "your own" : exact ? "fewest words" : "few words, by trying";
      return { side: {
        schedule, program, form, sizes, tiles, how, exact: own !== null || exact, instance, timeline, M, peak: held, smallest,
        limit: over > 0 ? over : timeline.steps,
      } };
    } catch (error) {
      const field = (error as { field?: string | null }).field ?? "tiles";
      return wrong(field, (error as Error).message);
    }
  }

  // The best tiles; if none fit, those of the least M for which some do.
  private tiles(schedule: Schedule, form: Form, program: ProgramData, sizes: Env, M: number): Env | { smallest: number; tiles: Env } {
    if (searchable(program)) return searched(program, sizes, M);
    const masks = this.data.start.blocks ?? {};
    const least = leastTiles(program);
    const held = Number(peak(bind(program, sizes, least, masks)));
    if (held > M) return { smallest: held, tiles: least };
    const plain = this.unmasked(schedule, form);
    const dense = plain && programOf(plain, this.packed, this.lab);
    if (!dense || !searchable(dense)) return nearby(program, sizes, least, M, masks);
    const found = best(dense, Object.fromEntries(dense.sizes.map((x) => [x, sizes[x]!])), M);
    const from = "smallest" in found ? least : found.tiles;
    const mine = program.tree.params.map((p) => [p.name, from[p.name] ?? p.least]);
    return nearby(program, sizes, Object.fromEntries(mine), M, masks);
  }


  private unmasked(schedule: Schedule, form: Form): Form | undefined {
    const key = Object.entries(schedule.forms).find(([, x]) => x === form)?.[0] ?? "";
    const masks = new Set(Object.values(this.data.masks).flat());
    return schedule.forms[key.split(" ").filter((x) => x && !masks.has(x)).join(" ")];
  }
}

const keyOf = (schedule: Schedule, choice: Choice, own: Env | null): string =>
  JSON.stringify([schedule.name, [...choice.options].sort(), choice.typed, own]);

// What Python is asked for the best tiles of a side: the problem as it is typed.
export function asked(data: WatchData, side: Side, choice: Choice): Record<string, unknown> {
  const { schedule, M, sizes } = side;
  if (data.schedules.length === 1) return { algo: schedule.name, sizes, M };
  const options = new Set([...choice.options, ...schedule.needs]);
  const names = [...schedule.fields, ...["N_k", "kv_heads"].filter((x) => options.has(x))];
  const typed: Record<string, unknown> = Object.fromEntries(names.map((x) => [x, choice.typed[x]]));
  if (options.has("causal")) typed.causal = true;
  const limit = (x: string) => (options.has(x) ? choice.typed[x]! : null);
  if (options.has("left") || options.has("right")) typed.window = [limit("left"), limit("right")];
  return { algo: schedule.name, sizes: typed, M };
}

function wrong(field: string, message: string): Tried {
  return { wrong: { field, message } };
}

function searched(program: ProgramData, sizes: Env, M: number): Env | { smallest: number; tiles: Env } {
  if (!searchable(program)) return leastTiles(program);
  const found = best(program, sizes, M);
  if (!("smallest" in found)) return found.tiles;
  const least = best(program, sizes, found.smallest);
  return { smallest: found.smallest, tiles: "smallest" in least ? leastTiles(program) : least.tiles };
}

const leastTiles = (program: ProgramData): Env =>
  Object.fromEntries(program.tree.params.map((p) => [p.name, p.least]));

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
    const fallback = name === "N_k" ? typed.N : name === "kv_heads" ? typed.heads : undefined;
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
  for (const x of ["N_k", "kv_heads"]) if (x in params) options.add(x);
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
    choice: { typed, options }, mask: mask in data.masks ? mask : Object.keys(data.masks)[0] ?? "",
    algorithm, versus, own: [tiles("tiles", start), tiles("vtiles", null)], at, wrong,
  };
}

export const tilesText = (tiles: Env): string => Object.entries(tiles).map(([x, v]) => `${x}=${v}`).join(",");
