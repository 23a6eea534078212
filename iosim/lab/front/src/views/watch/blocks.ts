// Which blocks of the scores are marked: a pattern to choose, or one that was drawn, in the shape
// that the tiles make.
import { maskShapes, type BlockMask, type Env, type ProgramData } from "../../engine";

// Rows of a pattern, a 1 for each block that is marked.
export type Rows = readonly string[];

export const MOST_BLOCKS = 2 ** 16; // that a side makes
export const MOST_DRAWN = 32; // of a side of a drawn pattern
const DRAWN = "drawn:";

// What a link says: the name of a pattern, or the rows of one; undefined where it is neither.
export function readBlocks(text: string, patterns: Record<string, Rows>): Rows | undefined {
  if (text in patterns) return patterns[text];
  if (!text.startsWith(DRAWN)) return undefined;
  const rows = text.slice(DRAWN.length).split("-");
  const wide = rows[0]!.length;
  const fits = rows.length <= MOST_DRAWN && wide > 0 && wide <= MOST_DRAWN;
  return fits && rows.every((x) => x.length === wide && /^[01]+$/.test(x)) ? rows : undefined;
}

export const blocksText = (rows: Rows): string => DRAWN + rows.join("-");

// A mask of another shape takes its blocks from the same places of the pattern.
export function stretched(pattern: Rows, rows: number, columns: number): BlockMask {
  const [high, wide] = [pattern.length, pattern[0]!.length];
  const at = (k: number, of: number, by: number): number => Math.floor((k * of) / by);
  return Array.from({ length: rows }, (_, i) =>
    Array.from({ length: columns }, (_, j) => pattern[at(i, high, rows)]![at(j, wide, columns)] === "1"));
}

// The masks of a program with some tiles, or what is wrong with so many blocks.
export function masksOf(program: ProgramData, sizes: Env, tiles: Env, pattern: Rows): Record<string, BlockMask> | string {
  const found: Record<string, BlockMask> = {};
  for (const [name, [rows, columns]] of Object.entries(maskShapes(program, sizes, tiles))) {
    if (rows * columns > MOST_BLOCKS)
      return `the tiles make ${rows} × ${columns} blocks, and ${MOST_BLOCKS} are the most here: choose larger tiles`;
    found[name] = stretched(pattern, rows, columns);
  }
  return found;
}

// Tiles that make as many blocks as a pattern has.
export function tilesFor(program: ProgramData, sizes: Env, pattern: Rows): Env {
  const tiles = Object.fromEntries(program.tree.params.map((p) => [p.name, p.least]));
  for (const [rows, columns] of Object.values(program.masks)) {
    if (rows.step !== null) tiles[rows.step] = Math.ceil(sizes[rows.axis]! / pattern.length);
    if (columns.step !== null) tiles[columns.step] = Math.ceil(sizes[columns.axis]! / pattern[0]!.length);
  }
  return tiles;
}
