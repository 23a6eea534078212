/** Words and peak of one program over a plane of two of its tiles, in numbers: for pictures. */

import { planTerms, Reader } from "./bounds";
import { searchable } from "./search";
import type { Instance } from "./types";
import { ProgramError } from "./errors";
import { NUMBERS } from "./whole";

export interface Plane {
  /** Words moved with the two tiles; exact below 2^53. */
  words(x: number, y: number): number;
  peak(x: number, y: number): number;
}

/**
 * An instance with two of its tiles free; they are to lie inside their axes.
 * ProgramError where blocks are marked, or lengths of axes follow tiles.
 */
export function plane({ program, env }: Instance, x: string, y: string): Plane {
  if (!searchable(program) || program.tree.derived?.length) {
    throw new ProgramError(`${program.name} has no plane: its words follow more than the sizes of tiles`);
  }
  const { names, all } = planTerms(program);
  const reader = new Reader(NUMBERS);
  const values = names.values(env);
  const [first, second] = [names.size(x), names.size(y)];
  const at = (a: number, b: number): typeof values => {
    values[first] = a;
    values[second] = b;
    return values;
  };
  return {
    words: (a, b) => reader.least(all.words, at(a, b), values),
    peak: (a, b) => reader.held(all.peak, at(a, b), values),
  };
}
