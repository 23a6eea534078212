// Tiles that are on neither axis: as typed, or as in the optimum.
import { best, bind, type Env, type Searchable } from "../../engine";
import type { Params } from "../../types";
import { parseWhole } from "../../ui";
import type { PlaneData } from "./data";

export function heldOf(program: Searchable, plane: PlaneData, sizes: Env, M: number, params: Params): Env {
  if (!plane.held.length) return {};
  const found = best(program, sizes, M);
  const least = Object.fromEntries(program.tree.params.map((p) => [p.name, p.least]));
  const tiles = "tiles" in found ? found.tiles : least;
  const wanted = Object.fromEntries(plane.held.map((name) => [name, parseWhole(params[name] ?? "") ?? tiles[name]!]));
  const { env } = bind(program, sizes, { ...tiles, ...positive(program, wanted) });
  return Object.fromEntries(plane.held.map((name) => [name, env[name]!]));
}

const positive = (program: Searchable, wanted: Env): Env =>
  Object.fromEntries(Object.entries(wanted).map(([name, value]) =>
    [name, Math.max(value, program.tree.params.find((p) => p.name === name)!.least)]));
