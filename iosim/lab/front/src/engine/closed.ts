/** Closed forms of one instance: the polynomials that traveled, evaluated. */

import { ProgramError } from "./errors";
import { allowed, once, resolved, sameTile, tilesOf, valueOf, Names, type Line, type Place, type Values } from "./space";
import { cutsOf, lengthAt, overTiles, pieces, turns, type Ramp, type Stretch } from "./sums";
import type { Affine, Atom, Clip, Instance, Level, LoopHead, Part, Poly, ProgramData, Sum, Tile } from "./types";
import { BIGINTS, ceilDiv, floorDiv, NUMBERS, type Whole } from "./whole";

/** Tiles that are walked one by one, where a sum or a peak depends on a sum that depends on them. */
const MOST_WALKED = 2 ** 20;

/** By the numbers of all names. */
export type Value<T> = (values: Values) => T;
type Length = Value<number>;

/** A program's closed forms, ready to be evaluated in one kind of whole numbers. */
export class Closed<T> {
  readonly names = new Names();
  readonly counts: [string, Value<T>][];
  readonly peak: Value<T>[];
  private readonly table: Value<T>[];
  private readonly atoms: Atom[];

  constructor(program: ProgramData, private readonly whole: Whole<T>) {
    this.atoms = program.atoms;
    this.table = program.atoms.map((x) => this.atom(x));
    this.counts = Object.entries(program.closed.counts).map(([key, poly]) => [key, this.poly(poly)]);
    this.peak = program.closed.peak.map((level) => this.level(level));
  }

  private poly(poly: Poly): Value<T> {
    const { whole } = this;
    const terms = poly.map(([c, atoms]): [T, Value<T>[]] => [whole.of(c), atoms.map((k) => this.table[k]!)]);
    return (values) => terms.reduce((sum, [c, atoms]) =>
      whole.plus(sum, atoms.reduce((x, atom) => whole.times(x, atom(values)), c)), whole.of(0));
  }

  private atom(atom: Atom): Value<T> {
    if (typeof atom !== "string" && atom.type === "Sum") {
      const sum = this.sum(atom);
      return (values) => this.whole.from(sum(values));
    }
    const length = this.length(atom);
    return (values) => this.whole.of(length(values));
  }

  /** An atom that is a plain number: a size, an extent, a length or trips. */
  private length(atom: Exclude<Atom, Sum> | Affine): Length {
    if (typeof atom === "string") {
      const place = this.names.size(atom);
      return (values) => values[place]!;
    }
    switch (atom.type) {
      case "Affine": {
        const line = this.names.line(atom);
        return (values) => valueOf(line, values);
      }
      case "Tile": {
        const place = this.names.tile(atom);
        return (values) => values[place + 1]! - values[place]!;
      }
      case "Trips": {
        const [line, step] = [this.names.line(atom.length), this.names.size(atom.step)];
        return (values) => ceilDiv(valueOf(line, values), values[step]!);
      }
      case "Part": {
        const [place, step] = [this.names.place(atom.span), this.step(atom.step)];
        return (values) => {
          const [start, stop] = resolved(place, values);
          return ceilDiv(stop - start, step(values));
        };
      }
      case "Clip": {
        const [length, step] = [this.length(atom.length), this.names.size(atom.step)];
        return (values) => Math.min(length(values), values[step]!);
      }
    }
  }

  private step(step: string | null): Length {
    if (step === null) return () => 1;
    const place = this.names.size(step);
    return (values) => values[place]!;
  }

  private tiles(loop: LoopHead): (values: Values) => Tiles {
    const [tile, place, step] = [this.names.tile(loop.tile), this.names.place(loop.span), this.step(loop.step)];
    return (values) => new Tiles(loop, tile, place, step(values), values);
  }

  /** A sum over tiles. */
  sum(sum: Sum): Value<bigint> {
    const tiles = this.tiles(sum);
    const factors = sum.factors.map((x) => this.factor(x));
    const product: Value<bigint> = (values) => factors.reduce((x, factor) => x * factor(values), 1n);
    if (sum.factors.some((x) => typeof x !== "string" && x.type === "Sum")) {
      return (values) => tiles(values).walked().reduce((total, here) => total + product(here), 0n);
    }
    const parts = sum.factors.filter((x): x is Part => typeof x !== "string" && x.type === "Part");
    const placed = parts.map((x) => ({ span: this.names.place(x.span), step: x.step === null ? null : this.step(x.step) }));
    const extents = BigInt(sum.factors.length - parts.length);
    return (values) => {
      const here = tiles(values);
      const total = here.short().reduce((x, inside) => x + product(inside), 0n);
      if (here.full === 0) return total;
      const stretches = placed.map(({ span, step }): [Stretch, number | null] =>
        [here.stretch(span), step === null ? null : step(values)]);
      return total + BigInt(here.by) ** extents * overTiles(here.full, stretches);
    };
  }

  private factor(atom: Atom): Value<bigint> {
    if (typeof atom !== "string" && atom.type === "Sum") return this.sum(atom);
    const length = this.length(atom);
    return (values) => BigInt(length(values));
  }

  /** The largest occupancy of a level over all iterations of its loops. */
  level(level: Level): Value<T> {
    const { whole } = this;
    const words = this.poly(level.words);
    const runs = level.runs.map((x) => this.length(x));
    const held: Value<T> = (values) => (runs.every((run) => run(values) > 0) ? words(values) : whole.of(0));
    return level.over.reduceRight<Value<T>>((inner, loop, k) => {
      const tiles = this.tiles(loop);
      if (k < level.over.length - 1) return (values) => largest(whole, tiles(values).walked().map(inner));
      const turning = this.turning(level, loop.tile);
      return (values) => {
        const here = tiles(values);
        const places = here.full ? candidates(whole, here, turning, words, values) : [];
        return largest(whole, [...here.short(), ...[...places].map((t) => here.inside(t))].map(inner));
      };
    }, held);
  }

  /** What makes the occupancy of a level bend along the tiles of a loop. */
  private turning(level: Level, tile: Tile): Turning {
    const found: Turning = { parts: [], degree: 0 };
    const used = [...new Set(level.words.flatMap(([, atoms]) => atoms))].map((k) => this.atoms[k]!);
    for (const atom of [...used, ...level.runs]) {
      if (typeof atom === "string") continue;
      const steps: Length[] = [];
      let part: Exclude<Atom, string> | Affine = atom;
      for (; part.type === "Clip"; part = part.length) steps.push(this.step((part as Clip).step));
      if (part.type === "Part" && follows(part, tile)) found.parts.push({ span: this.names.place(part.span), steps });
    }
    const degrees = level.words.map(([, atoms]) =>
      atoms.map((k) => this.atoms[k]!).filter((x) => !(isTile(x) && sameTile(x, tile)) && follows(x, tile)).length);
    found.degree = Math.max(0, ...degrees);
    return found;
  }
}

interface Turning { parts: { span: Place; steps: Length[] }[]; degree: number }

function isTile(atom: Atom): atom is Tile { return typeof atom !== "string" && atom.type === "Tile"; }

/** Whether an atom differs between the iterations of a tile's loop. */
function follows(atom: Atom | Affine, tile: Tile): boolean {
  if (typeof atom === "string") return false;
  switch (atom.type) {
    case "Tile": return sameTile(atom, tile);
    case "Part": return tilesOf(atom.span).some((x) => sameTile(x, tile));
    case "Clip": return (atom.length.type === "Part" || atom.length.type === "Clip") && follows(atom.length, tile);
    case "Sum": return tilesOf(atom.span).some((x) => sameTile(x, tile)) || atom.factors.some((x) => follows(x, tile));
    default: return false;
  }
}

function largest<T>(whole: Whole<T>, words: T[]): T { return words.reduce((a, b) => (whole.less(b, a) ? a : b), whole.of(0)); }

/** The tiles of a loop: `full` of them, then perhaps a short one. */
class Tiles {
  readonly start: number;
  readonly stop: number;
  readonly full: number;

  constructor(
    readonly loop: LoopHead, private readonly tile: number, span: Place, readonly by: number, private readonly values: Values,
  ) {
    [this.start, this.stop] = resolved(span, values);
    this.full = floorDiv(this.stop - this.start, by);
  }

  /** The values in the short last tile, if there is one. */
  short(): Values[] {
    const first = this.start + this.full * this.by;
    return first < this.stop ? [this.over(first, this.stop)] : [];
  }

  /** The values in the full tile t. */
  inside(t: number): Values { return this.over(this.start + t * this.by, this.start + (t + 1) * this.by); }

  walked(): Values[] {
    if (this.full > MOST_WALKED) {
      throw new ProgramError(
        `spans that depend on each other over ${this.full} tiles of ${this.loop.tile.var} are walked one by one, `
        + `and at most ${MOST_WALKED} are: choose larger tiles`,
      );
    }
    return [...Array.from({ length: this.full }, (_, t) => this.inside(t)), ...this.short()];
  }

  /** A span's length along the full tiles. */
  stretch(span: Place): Stretch {
    const [low, high] = allowed(span, this.values);
    return { start: this.ramp(span.start), stop: this.ramp(span.stop), low, high };
  }

  private ramp(line: Line): Ramp {
    const [first, moves] = [valueOf(line, this.inside(0)), line.places.reduce(
      (sum, place, k) => (place === this.tile || place === this.tile + 1 ? sum + line.by[k]! : sum), 0)];
    return { start: first, slope: moves * this.by };
  }

  private over(start: number, stop: number): Values {
    const values = this.values.slice();
    values[this.tile] = start;
    values[this.tile + 1] = stop;
    return values;
  }
}

/** Full tiles among which a level is largest. */
function candidates<T>(whole: Whole<T>, tiles: Tiles, turning: Turning, words: Value<T>, values: Values): Set<number> {
  const cuts: number[] = [];
  for (const { span, steps } of turning.parts) {
    const stretch = tiles.stretch(span);
    const here = cutsOf(stretch);
    cuts.push(...here);
    for (const [first, past] of steps.length ? pieces(tiles.full, here) : []) {
      // Where the length passes a step that it is clipped to.
      const length = lengthAt(stretch, first);
      const slope = past - first > 1 ? lengthAt(stretch, first + 1) - length : 0;
      for (const step of steps) {
        const turn = turns({ start: length - step(values), slope });
        if (turn !== null) cuts.push(first + turn);
      }
    }
  }
  const found = new Set<number>();
  for (const [first, past] of pieces(tiles.full, cuts)) {
    for (const t of [first, first + 1, past - 2, past - 1]) if (first <= t && t < past) found.add(t);
    for (const t of vertex(whole, words, turning.degree, tiles, first + 1, past - 1)) found.add(t);
  }
  return found;
}

/** The places beside the vertex of a parabola on first … past − 1. */
function vertex<T>(whole: Whole<T>, words: Value<T>, degree: number, tiles: Tiles, first: number, past: number): number[] {
  const n = past - first;
  if (n < 3 || degree < 2) return [];
  const values = Array.from({ length: Math.min(n, degree + 2) }, (_, k) => words(tiles.inside(first + k)));
  const steps = values.slice(1).map((b, k) => whole.minus(b, values[k]!));
  const bends = steps.slice(1).map((b, k) => whole.minus(b, steps[k]!));
  const [bend, step] = [bends[0]!, steps[0]!];
  if (bends.some((x) => x !== bend)) {
    throw new ProgramError(
      `an occupancy is of degree 3 or more in the number of tile ${tiles.loop.tile.var}: no closed form for its peak`,
    );
  }
  if (!whole.less(bend, whole.of(0))) return [];
  // The step from t to t + 1 is step + t·bend.
  const t = whole.over(step, whole.minus(whole.of(0), bend));
  return [t, t + 1].filter((k) => k >= 0 && k < n).map((k) => first + k);
}

const inNumbers = (program: ProgramData): Closed<number> => new Closed(program, NUMBERS);
const inBigints = (program: ProgramData): Closed<bigint> => new Closed(program, BIGINTS);

/** Its closed forms in bigints. */
export function closed(program: ProgramData): Closed<bigint> { return once(program, inBigints); }
/** In numbers, exact where they are below 2^53. */
export function smallClosed(program: ProgramData): Closed<number> { return once(program, inNumbers); }

/** Words moved, exact, by direction and tensor: "load K". */
export function count({ program, env }: Instance): Record<string, bigint> {
  const { counts, names } = closed(program);
  const values = names.values(env);
  return Object.fromEntries(counts.map(([key, words]) => [key, words(values)]));
}

/** Words moved in either direction. */
export function total(instance: Instance): bigint {
  return Object.values(count(instance)).reduce((a, b) => a + b, 0n);
}

/** The largest number of words resident at once, exact. */
export function peak({ program, env }: Instance): bigint {
  const { peak, names } = closed(program);
  const values = names.values(env);
  return largest(BIGINTS, peak.map((level) => level(values)));
}
