// What the view computes of a plane, from the program's closed forms.
import { best, bind, distinctTrips, peak, plane, total, walk, type Env, type Plane, type ProgramData, type Searchable } from "../../engine";
import { chosen, type PlaneData, type TilesData } from "./data";

// Both tiles run over the values at which a trip count changes; words are row by row.
export interface Grid { xs: number[]; ys: number[]; words: Float64Array; low: number; high: number }

export interface Setting {
  program: Searchable;
  plane: PlaneData;
  sizes: Env;
  M: number;
  held: Env; // tiles that are on neither axis
}

export const extentOf = (program: ProgramData, tile: string, sizes: Env): number =>
  sizes[program.tree.params.find((p) => p.name === tile)!.axis]!;

function distinct(extent: number): number[] {
  const choice = distinctTrips(extent);
  return Array.from({ length: choice.count }, (_, k) => choice.value(k));
}

export function planeOf({ program, plane: { x, y }, sizes, held }: Setting): Plane {
  return plane(bind(program, sizes, { ...held, [x]: 1, [y]: 1 }), x, y);
}

export function gridOf(setting: Setting): Grid {
  const { program, plane: { x, y }, sizes } = setting;
  const at = planeOf(setting);
  const [xs, ys] = [distinct(extentOf(program, x, sizes)), distinct(extentOf(program, y, sizes))];
  const words = new Float64Array(xs.length * ys.length);
  let [low, high] = [Infinity, 0];
  ys.forEach((b, j) => xs.forEach((a, i) => {
    const here = (words[j * xs.length + i] = at.words(a, b));
    if (here < low) low = here;
    if (here > high) high = here;
  }));
  return { xs, ys, words, low, high };
}

// The largest tile whose peak fits; 0 where none does.  A larger tile never holds less.
export function fitting(held: (tile: number) => number, extent: number, M: number): number {
  let [low, high] = [0, extent];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (held(middle) <= M) low = middle;
    else high = middle - 1;
  }
  return low;
}

// For each tile along x, the largest along y that fits beside it.
export function edgeOf(setting: Setting): [x: number, y: number][] {
  const { program, plane: { x, y }, sizes, M } = setting;
  const at = planeOf(setting);
  const [wide, high] = [extentOf(program, x, sizes), extentOf(program, y, sizes)];
  const some = new Set(distinct(wide));
  for (let a = 1; a <= wide; a = Math.max(a + 1, Math.round(a * 1.03))) some.add(a);
  return [...some].sort((a, b) => a - b).map((a) => [a, fitting((b) => at.peak(a, b), high, M)]);
}

// Tiles with what they move and hold, exactly, as they are used: not past their axis.
export interface Point { what: string; sign: "you" | "optimum" | "rule" | "block"; tiles: Env; words: bigint; peak: bigint; fits: boolean }

export function pointOf(setting: Setting, what: string, sign: Point["sign"], tiles: Env): Point {
  const { program, plane: { x, y }, sizes, held, M } = setting;
  const instance = bind(program, sizes, { ...held, [x]: tiles[x]!, [y]: tiles[y]! });
  const most = peak(instance);
  const used = { [x]: instance.env[x]!, [y]: instance.env[y]! };
  return { what, sign, tiles: used, words: total(instance), peak: most, fits: most <= BigInt(M) };
}

// The best tiles of all, if the plane goes through them; else the best cell of the plane.
export function optimumOf(setting: Setting, grid: Grid): Point | undefined {
  const { program, plane: { x, y }, sizes, held, M } = setting;
  const found = best(program, sizes, M);
  if ("tiles" in found && Object.entries(held).every(([name, value]) => found.tiles[name] === value)) {
    return pointOf(setting, "optimum", "optimum", found.tiles);
  }
  const at = planeOf(setting);
  let [words, spot] = [Infinity, undefined as Env | undefined];
  grid.ys.forEach((b, j) => grid.xs.forEach((a, i) => {
    const here = grid.words[j * grid.xs.length + i]!;
    if (here < words && at.peak(a, b) <= M) [words, spot] = [here, { [x]: a, [y]: b }];
  }));
  return spot && pointOf(setting, "optimum of this plane", "optimum", spot);
}

export function marksOf(data: TilesData, setting: Setting, grid: Grid): Point[] {
  const { plane: { rule, blocks }, sizes, M } = setting;
  const optimum = optimumOf(setting, grid);
  return [
    ...(optimum ? [optimum] : []),
    ...(rule ? [pointOf(setting, data.rule.name, "rule", chosen(data.rule.tiles, { ...sizes, M }))] : []),
    ...(blocks ? data.blocks.tiles.map((tiles) => pointOf(setting, data.blocks.name, "block", tiles)) : []),
  ];
}

// A section: words along one tile beside a value of the other, and where it stops to fit.
export interface Section { tile: string; beside: string; points: [tile: number, words: number][]; last: number; at: number }

export function sectionsOf(setting: Setting, grid: Grid, tiles: Env): [Section, Section] {
  const { program, plane: { x, y }, sizes, M } = setting;
  const at = planeOf(setting);
  const [a, b] = [tiles[x]!, tiles[y]!];
  return [
    {
      tile: x, beside: `${y} = ${b.toLocaleString("en-US")}`, at: a,
      points: grid.xs.map((v) => [v, at.words(v, b)]),
      last: fitting((v) => at.peak(v, b), extentOf(program, x, sizes), M),
    },
    {
      tile: y, beside: `${x} = ${a.toLocaleString("en-US")}`, at: b,
      points: grid.ys.map((v) => [v, at.words(a, v)]),
      last: fitting((v) => at.peak(a, v), extentOf(program, y, sizes), M),
    },
  ];
}

// Words of each buffer, where both axes are no longer than their larger tile: then all buffers are
// there within a few iterations, and are as large as ever.
export function buffersOf({ program, plane: { x, y }, sizes, held }: Setting, tiles: Env): Record<string, number> {
  const long = Math.max(tiles[x]!, tiles[y]!);
  const short = { ...sizes };
  for (const p of program.tree.params) if (p.name === x || p.name === y) short[p.axis] = long;
  const found: Record<string, number> = {};
  for (const event of walk(bind(program, short, { ...held, ...tiles }))) {
    if (event.kind === "load" || event.kind === "alloc") found[event.buffer] ??= event.words;
  }
  return found;
}

// What tiles of a rule hold as M grows, over M, for sequences so long that no tile is cut.  Tiles of
// which the rule says nothing are at their least.
const LONG = 2 ** 20;
export interface Held { M: number; capped: number; free: number }

export function ruleOf(data: TilesData, setting: Setting): Held[] {
  const { program, plane: { x, y }, sizes } = setting;
  const long = { ...sizes, N: LONG };
  const held = Object.fromEntries(program.tree.params.map((p) => [p.name, p.least]));
  const at = planeOf({ ...setting, sizes: long, held });
  const part = (rule: TilesData["rule"]["tiles"], M: number) => {
    const tiles = chosen(rule, { ...long, M });
    return at.peak(tiles[x]!, tiles[y]!) / M;
  };
  return Array.from({ length: 33 }, (_, k) => {
    const M = Math.max(1, Math.round(sizes.d! ** 2 * 2 ** (k / 4 - 2)));
    return { M, capped: part(data.rule.tiles, M), free: part(data.rule.uncapped, M) };
  });
}
