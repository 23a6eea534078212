// How curves look: those of the README's figure, each with a colour, a dash and a sign of its own.
import { symbol, symbolCircle, symbolCross, symbolDiamond, symbolSquare, symbolStar, symbolTriangle, symbolWye } from "d3-shape";

const SIGNS = [symbolCircle, symbolSquare, symbolTriangle, symbolDiamond, symbolCross, symbolStar, symbolWye];
const DASHES = ["", "9 3", "", "2 3", "12 3 2 3", "5 2", "7 3 2 3 2 3"];

export interface Look { colour: string; dash: string; sign: string }

export function lookOf(k: number): Look {
  const at = k % SIGNS.length;
  return { colour: `var(--s-${at})`, dash: DASHES[at]!, sign: symbol(SIGNS[at]!, 46)() ?? "" };
}

export const BOUND_DASH = "7 4";
export const UPPER_DASH = "8 3 2 3";
export const ORDER_DASH = "1.5 4";
