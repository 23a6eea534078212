/** A program as it travels: the JSON value that iosim.lab.programs makes, version 1. */

export interface Tile { type: "Tile"; var: string; axis: string; point: boolean }
export interface Edge { type: "Edge"; tile: Tile; end: "start" | "stop" }
/** A size or a tile parameter by its name, or an end of an open tile. */
export type Name = string | Edge;
/** const + Σ coefficient·name */
export interface Affine { type: "Affine"; const: number; terms: [Name, number][] }
export interface Span { type: "Span"; axis: string; start: Affine; stop: Affine; within?: [Affine, Affine] | null }
export interface Stack { type: "Stack"; parts: (Span | Tile)[] }
/** Which iteration of its loop a tile is. */
export interface Numbered { type: "Number"; tile: Tile; axis: string }
export interface Within { type: "Within"; tile: Tile; axis: string }
export interface At { type: "At"; buffer: string; axis: string }
export type Plain = Span | Tile | Numbered | Within | At;
export type Index = Plain | Stack;

export interface Ref { type: "Ref"; buffer: string; part: Tile | null }
export interface Marks { type: "Marks"; name: string; rows: Tile }
/** What a loop says apart from its body. */
export interface LoopHead { tile: Tile; span: Span; step: string | null }
export interface Loop extends LoopHead { type: "Loop"; parallel: boolean; body: Node[]; marks?: Marks | null }
export interface Load { type: "Load"; buffer: string; tensor: string; index: Index[] }
export interface Store { type: "Store"; buffer: string; tensor: string; index: Index[] }
export interface Alloc { type: "Alloc"; buffer: string; index: Index[] }
export interface Free { type: "Free"; buffer: string }
export interface Op { type: "Op"; name: string; operands: Ref[]; scalars: Affine[] }
export type Node = Loop | Load | Store | Alloc | Free | Op;

export interface Param { type: "Param"; name: string; axis: string; least: number; less?: string }
export interface Tensor { type: "Tensor"; name: string; axes: string[]; wide: boolean; positions?: string }
/** An axis whose length ⌈of/step⌉ follows. */
export interface Derived { type: "Derived"; name: string; of: string; step: string }
export interface Tree {
  type: "Program"; name: string; problem: string; params: Param[]; tensors: Tensor[]; body: Node[];
  limits?: string[]; derived?: Derived[]; mask?: unknown;
}

// Atoms of closed forms.
export interface Trips { type: "Trips"; length: Affine; step: string }
export interface Part { type: "Part"; span: Span; step: string | null }
export interface Clip { type: "Clip"; length: Affine | Part | Tile | Clip; step: string }
export interface Sum { type: "Sum"; tile: Tile; span: Span; step: string | null; factors: Atom[] }
export type Atom = string | Trips | Part | Clip | Sum | Tile;
/** Terms: a coefficient, and numbers of atoms in the program's table. */
export type Poly = [number, number[]][];

/** A candidate for the peak: an occupancy, reached where no length of `runs` is 0. */
export interface Level { words: Poly; runs: (Affine | Part)[]; over: LoopHead[]; held: string[] }

/**
 * An occupancy as base + tilt·W + slope·atom, where the atom is a tile or what it is clipped to, and
 * W is the hold of `ends`; `level` is the number of a level that is over iterations.
 */
export interface OccupancyLine { base: Poly; tilt: Poly; slope: Poly; atom: number | null; runs: Affine[]; level: number | null }
/** A level as flat + tilt·W in a hold W. */
export interface HoldLine { flat: Poly; tilt: Poly; level: number }
/** Words by a hold W of an axis of D positions: flat, by W, and by D − W. */
export type Leaning = [Poly, Poly, Poly];
/** Bounds at the ends of a hold; `shared` is of a tile that is solved for: the rest, and what is divided by it. */
export interface Ends { hold: string; axis: string; words: Leaning; shared: Record<string, [Leaning, Leaning]> }

/** What is proven of the search in nests that share parameters; see iosim.core.tiling.plan. */
export interface Plan {
  total: Poly; peak: Level[];
  /** What a valid tiling makes at least 0. */
  constraints: Affine[];
  searched: string[]; spare: string[]; solvable: string[]; lowest: string[]; falls: string[];
  candidates: Record<string, "trips" | "every">;
  lines: Record<string, OccupancyLine[] | null>;
  /** Holds that are bounded at what fits beside the rest, by the levels that tell. */
  reaches: Record<string, HoldLine[]>;
  ends: Ends | null;
}

export interface ListingLine { code: string; note: string; path: number[] }
export type Role = "input" | "output" | "scratch";

export interface ProgramData {
  version: 1; name: string; says: string; options: string[];
  /** Names of what binding takes besides tiles; those in tree.limits may be 0. */
  sizes: string[];
  roles: Record<string, Role>;
  tree: Tree;
  listing: ListingLine[];
  signs: [string, string][];
  /** Block mask → the loops whose tiles number its rows and its columns. */
  masks: Record<string, [{ axis: string; step: string | null }, { axis: string; step: string | null }]>;
  atoms: Atom[];
  closed: { counts: Record<string, Poly>; peak: Level[] };
  /** null with a block mask, whose tiles are given. */
  plans: Plan[] | null;
}

/** A program whose tiles `best` finds. */
export type Searchable = ProgramData & { plans: Plan[] };

/** Sizes and tile parameters by name. */
export type Env = Record<string, number>;
/** A row for each tile of one loop, a column for each of another. */
export type BlockMask = boolean[][];

/** A program whose sizes and tiles are numbers. */
export interface Instance { program: ProgramData; env: Env; masks: Record<string, BlockMask> }
