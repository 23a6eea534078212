/** Binding: every size and tile parameter gets a number; tiles are clipped to their axis. */

import { InputError } from "./errors";
import { Names, unstacked, tilesOf, valueOf } from "./space";
import type { Affine, BlockMask, Env, Instance, Node, ProgramData, Span } from "./types";
import { ceilDiv } from "./whole";

export const LARGEST_SIZE = 2 ** 40;

function checked(name: string, value: number, least: number): number {
  if (!Number.isInteger(value)) {
    throw new InputError(`${name} must be a whole number, got ${value}: give an integer`, name);
  }
  if (value < least || value > LARGEST_SIZE) {
    throw new InputError(`${name} = ${value} is outside ${least}..${LARGEST_SIZE} (2**40): choose a size inside`, name);
  }
  return value;
}

/** The names of a program's axes, in the order in which they are checked. */
function axesOf(program: ProgramData): string[] {
  const limits = program.tree.limits ?? [];
  return program.sizes.filter((x) => !limits.includes(x)).sort();
}

function said(value: Affine): string {
  const name = (x: Affine["terms"][number][0]): string => (typeof x === "string" ? x : `${x.tile.var}.${x.end}`);
  const terms = [...value.terms].sort((a, b) => Number(a[1] < 0) - Number(b[1] < 0) || (name(a[0]) < name(b[0]) ? -1 : 1));
  const parts = terms.map(([x, c]) => (c === 1 ? name(x) : c === -1 ? `-${name(x)}` : `${c}*${name(x)}`));
  if (value.const !== 0 || parts.length === 0) parts.push(String(value.const));
  return parts.join(" + ").replaceAll("+ -", "- ");
}

function isWhole(span: Span): boolean {
  const [only, ...others] = span.stop.terms;
  return span.start.const === 0 && span.start.terms.length === 0 && span.stop.const === 0
    && others.length === 0 && only !== undefined && only[0] === span.axis && only[1] === 1;
}

/** Every part of an axis that a program names and that names no edge of a tile. */
export function fixedSpans(body: Node[]): Span[] {
  return body.flatMap((node) => {
    if (node.type === "Loop") return [node.span, ...fixedSpans(node.body)];
    if (node.type === "Free" || node.type === "Op") return [];
    return unstacked(node.index).filter((x): x is Span => x.type === "Span");
  }).filter((x) => tilesOf(x).length === 0 && !isWhole(x));
}

/** How many tiles number the rows or the columns of a block mask. */
function sideCount(side: { axis: string; step: string | null }, env: Env): number {
  return ceilDiv(env[side.axis]!, side.step === null ? 1 : env[side.step]!);
}

/** Rows and columns of every block mask of a program that some tiles make. */
export function maskShapes(program: ProgramData, sizes: Env, tiles: Env): Record<string, [number, number]> {
  const env: Env = { ...sizes };
  for (const p of program.tree.params) env[p.name] = Math.min(tiles[p.name]!, most(p, sizes));
  return Object.fromEntries(Object.entries(program.masks).map(([name, [rows, columns]]) =>
    [name, [sideCount(rows, env), sideCount(columns, env)]]));
}

function boundMasks(program: ProgramData, given: Record<string, BlockMask>, env: Env): Record<string, BlockMask> {
  for (const name of Object.keys(given)) {
    if (!(name in program.masks)) throw new InputError(`${program.name} has no block mask '${name}'`, name);
  }
  for (const [name, sides] of Object.entries(program.masks)) {
    const [rows, columns] = [sideCount(sides[0], env), sideCount(sides[1], env)];
    const tiles = sides.map((x) => (x.step === null ? x.axis : `⌈${x.axis}/${x.step}⌉`)).join(" × ");
    const need = `${rows} × ${columns} (tiles ${tiles})`;
    const mask = given[name];
    if (mask === undefined) throw new InputError(`${program.name} needs the block mask ${name}, a boolean array of ${need}`, name);
    const has = `${mask.length} × ${mask[0]?.length ?? 0}`;
    if (mask.some((row) => row.length !== mask[0]!.length)) throw new InputError(`block mask ${name} has rows of unequal lengths: give a whole array`, name);
    if (has !== `${rows} × ${columns}`) throw new InputError(`block mask ${name} is ${has}, and the tiles make ${need}: reshape it`, name);
  }
  return given;
}

/** The numbers of a mask that closed forms are in: marks in all, in its last row and column, and in both. */
function maskNumbers(name: string, mask: BlockMask): Env {
  const marks = (row: boolean[]): number => row.filter(Boolean).length;
  const last = mask[mask.length - 1]!;
  return {
    [`${name}_marked`]: mask.reduce((total, row) => total + marks(row), 0),
    [`${name}_last_row`]: marks(last),
    [`${name}_last_column`]: marks(mask.map((row) => row[row.length - 1]!)),
    [`${name}_corner`]: Number(last[last.length - 1]!),
  };
}

/** Lengths of derived axes beside the sizes that they follow from. */
export function derive(program: ProgramData, env: Env): Env {
  const found = { ...env };
  for (const x of program.tree.derived ?? []) found[x.name] = ceilDiv(found[x.of]!, found[x.step]!);
  return found;
}

/** The largest value of a tile parameter that is of use. */
export function most(param: ProgramData["tree"]["params"][number], env: Env): number {
  return env[param.axis]! - (param.less ? env[param.less]! : 0);
}

/** Sizes as binding takes them; InputError for unknown, missing or impossible ones. */
export function checkSizes(program: ProgramData, sizes: Env): Env {
  const limits = program.tree.limits ?? [];
  const over = [...axesOf(program), ...limits];
  if (Object.keys(sizes).length !== over.length || over.some((x) => !(x in sizes))) {
    const got = Object.keys(sizes).sort().join(", ") || "none";
    throw new InputError(
      `${program.name} is over the sizes ${over.join(", ")}, got ${got}: give exactly those`,
      over.find((x) => !(x in sizes)) ?? null,
    );
  }
  return Object.fromEntries(over.map((x) => [x, checked(x, sizes[x]!, limits.includes(x) ? 0 : 1)]));
}

/**
 * Give every size and tile parameter a number; tiles are clipped to their axis.
 * InputError for unknown or missing names, values out of range, and masks of another shape.
 */
export function bind(program: ProgramData, sizes: Env, tiles: Env, masks: Record<string, BlockMask> = {}): Instance {
  const params = program.tree.params;
  for (const name of Object.keys(tiles)) {
    if (!params.some((p) => p.name === name)) throw new InputError(`${program.name} has no tile size '${name}'`, name);
  }
  const missing = params.map((p) => p.name).filter((x) => !(x in tiles)).sort();
  if (missing.length) throw new InputError(`${program.name} needs the tile sizes ${missing.join(", ")}: give them`, missing[0]);
  const env = checkSizes(program, sizes);
  for (const p of params) env[p.name] = checked(p.name, tiles[p.name]!, p.least);
  const clipped = { ...env };
  for (const p of params) clipped[p.name] = Math.min(env[p.name]!, most(p, env));
  const all = derive(program, clipped);
  checkSpans(program, all);
  const bound = boundMasks(program, masks, all);
  for (const [name, mask] of Object.entries(bound)) Object.assign(all, maskNumbers(name, mask));
  return { program, env: all, masks: bound };
}

function checkSpans(program: ProgramData, env: Env): void {
  for (const span of fixedSpans(program.tree.body)) {
    const names = new Names();
    const [start, stop] = [names.line(span.start), names.line(span.stop)];
    const values = names.values(env);
    const [first, past] = [valueOf(start, values), valueOf(stop, values)];
    if (first < 0 || first > past || past > env[span.axis]!) {
      throw new InputError(
        `${program.name} uses ${span.axis}[${said(span.start)}:${said(span.stop)}], which is ${first}:${past} `
        + `of ${env[span.axis]}: choose sizes and tiles for which it lies inside`,
      );
    }
  }
}
