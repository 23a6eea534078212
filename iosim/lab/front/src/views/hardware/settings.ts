// What is set of the drift, and how it stands in a link.
import type { Params } from "../../types";
import { say } from "../../ui";
import type { DriftData, HardwareData, Run, Shape } from "./data";
import { rowsOf } from "./data";
import type { Row } from "./packed";

export const MIB = 2 ** 20;

export interface Settings {
  shape: number; // its place among the shapes
  rows: number; // B_r
  programs: number;
  l2: number; // MiB
  drift: number; // per mille
  every: number; // blocks between two barriers, 0 without
  seed: number;
  recorded: number; // 1 + the place of the recorded sweeps that are shown, 0 for drawn ones
}

export const RANGES: Readonly<Record<string, readonly [number, number]>> = {
  rows: [16, 1024], programs: [1, 2048], l2: [1, 1024], every: [0, 2 ** 20], seed: [0, 2 ** 32 - 1],
};

export function ranges(data: DriftData): Record<string, readonly [number, number]> {
  return {
    ...RANGES,
    shape: [0, data.shapes.length - 1],
    drift: [0, data.most_drift],
    recorded: [0, data.sweeps.length],
  };
}

// The settings of a link: the first ones, and what the link says; and what it says wrongly.
export function read(params: Params, first: Settings, data: DriftData): { set: Settings; wrong: string[] } {
  const [set, wrong]: [Settings, string[]] = [{ ...first }, []];
  for (const [name, [least, most]] of Object.entries(ranges(data))) {
    const text = params[name];
    if (text === undefined) continue;
    const x = /^\d+$/.test(text) ? Number(text) : NaN;
    if (x >= least && x <= most) set[name as keyof Settings] = x;
    else wrong.push(`${name}=${text} in the link is not a number from ${say(least)} to ${say(most)}: ${say(set[name as keyof Settings])} is shown`);
  }
  return { set, wrong };
}

export const itemsOf = (set: Settings, shape: Shape): number => Math.ceil(shape.N / set.rows);

// Bytes at L2↔DRAM of sweeps that miss so many pieces, with the share that is read beside them.
export function bytes(shape: Shape, pieces: number, misses: number, started: number, items: number): number {
  return Math.floor((misses * shape.swept) / pieces) + Math.floor((shape.own * started) / items);
}

// What is read in lockstep: `iosim.gpu.l2.predicted_bytes`, held equal to it by a test.
export function inStep(shape: Shape, items: number, programs: number, l2: number, share: number): number {
  if (shape.swept <= l2 * share) return shape.swept + shape.own;
  return Math.ceil(items / programs) * shape.swept + shape.own;
}

// Pieces that a share of L2 holds of what is swept.
export function room(shape: Shape, pieces: number, capacity: number): number {
  return Math.max(1, roundHalfEven(capacity / (shape.swept / pieces)));
}

// As Python rounds: the half to the even number.
function roundHalfEven(x: number): number {
  const low = Math.floor(x);
  return x - low === 0.5 ? low + (low % 2) : Math.round(x);
}

export interface RecordedRun extends Run {
  at: number; // among the runs
  told: Row; // its row of the report
}

export function runsOf(data: HardwareData): RecordedRun[] {
  return data.drift.runs.map((run, at) => ({ ...run, at, told: rowsOf(data, run.record)[run.row]! }));
}

// The recorded runs of the same shape: N, d, B_r, programs, and the barrier.
export function alike(set: Settings, data: DriftData, runs: readonly RecordedRun[]): RecordedRun[] {
  const shape = data.shapes[set.shape]!;
  const programs = Math.min(set.programs, itemsOf(set, shape));
  return runs.filter(
    ({ told, every }) =>
      told.N === shape.N && told.d === shape.d && told.B_r === set.rows && told.programs === programs && every === set.every,
  );
}

// The settings that give the shape of a recorded run.
export function like(run: RecordedRun, set: Settings, data: HardwareData): Settings {
  const { shapes, sweeps } = data.drift;
  const { told } = run;
  return {
    ...set,
    shape: shapes.findIndex((x) => x.N === told.N && x.d === told.d),
    rows: Number(told.B_r),
    programs: Number(told.programs),
    l2: data.machines[run.machine]!.l2_bytes / MIB,
    every: run.every,
    recorded: set.recorded && 1 + sweeps.findIndex((x) => x.run === run.at),
  };
}
