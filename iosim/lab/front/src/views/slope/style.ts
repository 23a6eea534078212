// How curves look: those of the README's figure, each with a color, a dash and a sign of its own.
import {
  symbol, symbolCircle, symbolCross, symbolDiamond, symbolSquare, symbolStar, symbolTriangle, symbolWye, type SymbolType,
} from "d3-shape";

const polygon = (corners: number, turn: number): SymbolType => ({ draw: (path, size) => drawn(path, corners, Math.sqrt(size / 2), turn) });

const SIGNS = [
  symbolCircle, symbolSquare, symbolTriangle, symbolDiamond, symbolCross, symbolStar, symbolWye,
  polygon(3, Math.PI / 2), polygon(5, -Math.PI / 2), polygon(6, 0),
];
const DASHES = ["", "9 3", "", "2 3", "12 3 2 3", "5 2", "7 3 2 3 2 3", "14 3", "1 2", "4 2 1 2"];
const COLORS = 7;

export interface Look { color: string; dash: string; sign: string }

export function lookOf(k: number): Look {
  const at = k % SIGNS.length;
  return { color: `var(--s-${at % COLORS})`, dash: DASHES[at]!, sign: symbol(SIGNS[at]!, 46)() ?? "" };
}

function drawn(path: Parameters<SymbolType["draw"]>[0], corners: number, radius: number, turn: number): void {
  for (let k = 0; k < corners; k++) {
    const angle = turn + (2 * Math.PI * k) / corners;
    const [x, y] = [radius * Math.cos(angle), radius * Math.sin(angle)];
    if (k) path.lineTo(x, y);
    else path.moveTo(x, y);
  }
  path.closePath();
}

export const BOUND_DASH = "7 4";
export const UPPER_DASH = "8 3 2 3";
export const ORDER_DASH = "1.5 4";
