/** Programs that traveled as JSON, evaluated: bound, counted, walked, and searched for tiles. */

export { bind, checkSizes, derive, LARGEST_SIZE, maskShapes } from "./bind";
export { distinctTrips } from "./choices";
export { count, peak, total } from "./closed";
export { InputError, ProgramError } from "./errors";
export { evaluate, type Entry } from "./formulas";
export { plane, type Plane } from "./plane";
export { best, bestSteps, searchable, smallest, type Steps, type Tiling } from "./search";
export { ended, within } from "./slices";
export type * from "./types";
export { UNKNOWN, walk, type Event, type Operation, type Reserve, type Transfer, type Turn } from "./walk";
export type { Range } from "./space";
