// A program's tree as a timeline reads it: names are places in an array of numbers, and every part
// knows its line of the listing and what it counts.
import { edgesOf, unstacked, type Names, type Place } from "../../engine/space";
import type { Index, Loop, Node, Plain, ProgramData, Tile } from "../../engine/types";

export interface Extent {
  kind: "span" | "tile" | "own" | "number" | "unknown";
  at: number; // the place of a tile
  span: Place | null;
}

export interface Leaf {
  loop: false;
  kind: "load" | "store" | "alloc" | "free" | "op";
  line: number;
  key: number; // of what is moved; -1 where nothing is
  buffer: string;
  tensor: string;
  index: Extent[];
  operands: readonly string[];
}

export interface Nest {
  loop: true;
  line: number;
  name: string; // of its tile
  axis: string;
  tile: number; // the place of its tile: its start, its stop, its number
  span: Place;
  step: number; // the place of its step; -1: single positions
  body: Part[];
  varies: boolean; // whether its iterations differ in more than the length of their tile
  follows: number[]; // the places of the tiles outside that spans in it name
  within: number[]; // and of those of which it knows the length
  marks: { name: string; rows: number } | null; // rows: the place of a tile
}

export type Part = Leaf | Nest;

export interface Parts {
  body: Part[];
  leaves: Leaf[]; // those that move words
  nests: Nest[]; // in the order of the listing
  chains: Map<number, Part[]>; // line → the loops around it, and itself
}

// Reads a program; `keys` are those of its counts, and every name gets a place in `names`.
export function partsOf(program: ProgramData, keys: readonly string[], names: Names): Parts {
  const line = new Map(program.listing.map((x, k) => [x.path.join(), k]));
  const found: Parts = { body: [], leaves: [], nests: [], chains: new Map() };
  const places = (tiles: readonly Tile[]) => [...new Set(tiles.map((x) => names.tile(x)))];
  const extents = (index: readonly Index[]) => unstacked([...index]).map((x) => extentOf(x, names));
  const leafOf = (node: Exclude<Node, Loop>, at: number): Leaf => {
    const told = { loop: false as const, line: at, key: -1, buffer: "", tensor: "", index: [], operands: [] };
    switch (node.type) {
      case "Load":
      case "Store": {
        const kind = node.type === "Load" ? "load" : "store";
        const key = keys.indexOf(`${kind} ${node.tensor}`);
        return { ...told, kind, key, buffer: node.buffer, tensor: node.tensor, index: extents(node.index) };
      }
      case "Alloc":
        return { ...told, kind: "alloc", buffer: node.buffer, index: extents(node.index) };
      case "Free":
        return { ...told, kind: "free", buffer: node.buffer };
      case "Op":
        return { ...told, kind: "op", operands: node.operands.map((x) => x.buffer) };
    }
  };
  const read = (body: readonly Node[], path: readonly number[], outer: readonly Part[]): Part[] =>
    body.map((node, k) => {
      const at = line.get([...path, k].join())!;
      if (node.type !== "Loop") {
        const leaf = leafOf(node, at);
        if (leaf.key >= 0) found.leaves.push(leaf);
        found.chains.set(at, [...outer, leaf]);
        return leaf;
      }
      const tile = names.tile(node.tile);
      const inner = new Set(places(tilesIn([node])));
      const outside = (tiles: readonly Tile[]) => places(tiles).filter((x) => !inner.has(x));
      const nest: Nest = {
        loop: true, line: at, name: node.tile.var, axis: node.tile.axis, tile,
        span: names.place(node.span), step: node.step === null ? -1 : names.size(node.step), body: [],
        varies: node.marks != null || places(namedIn(node.body)).includes(tile),
        follows: outside(namedIn([node])), within: outside(indexedBy([node])),
        marks: node.marks ? { name: node.marks.name, rows: names.tile(node.marks.rows) } : null,
      };
      found.nests.push(nest);
      nest.body = read(node.body, [...path, k], [...outer, nest]);
      return nest;
    });
  found.body = read(program.tree.body, [], []);
  return found;
}

function extentOf(x: Plain, names: Names): Extent {
  switch (x.type) {
    case "Span":
      return { kind: "span", at: 0, span: names.place(x) };
    case "Tile":
      return { kind: "tile", at: names.tile(x), span: null };
    case "Number":
      return { kind: "number", at: names.tile(x.tile), span: null };
    case "Within":
      return { kind: "own", at: names.tile(x.tile), span: null };
    case "At":
      return { kind: "unknown", at: 0, span: null };
  }
}

// The tiles whose edges spans name, and the rows of block masks.
function namedIn(body: readonly Node[]): Tile[] {
  return body.flatMap((node) => {
    if (node.type === "Loop") {
      const rows = node.marks ? [node.marks.rows] : [];
      return [...edgesOf(node.span.start, node.span.stop), ...rows, ...namedIn(node.body)];
    }
    if (node.type === "Free" || node.type === "Op") return [];
    return unstacked(node.index).flatMap((x) => (x.type === "Span" ? edgesOf(x.start, x.stop) : []));
  });
}

// The tiles whose lengths are those of buffers.
function indexedBy(body: readonly Node[]): Tile[] {
  return body.flatMap((node) => {
    if (node.type === "Loop") return indexedBy(node.body);
    if (node.type === "Free" || node.type === "Op") return [];
    return unstacked(node.index).flatMap((x) => (x.type === "Tile" ? [x] : x.type === "Within" ? [x.tile] : []));
  });
}

function tilesIn(body: readonly Node[]): Tile[] {
  return body.flatMap((node) => (node.type === "Loop" ? [node.tile, ...tilesIn(node.body)] : []));
}
