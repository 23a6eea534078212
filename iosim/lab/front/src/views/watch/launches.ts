// The launch of a Triton kernel, step by step: what programs load, store and change, in launch order.
import type { Range } from "../../engine/space";
import type { Tensor } from "../../engine";
import { sized, TRAIL, type Panel, type Shown } from "./panels";

export interface LaunchData {
  name: string;
  title: string;
  programs: number;
  listing: { number: number; code: string }[]; // lines of the source
  tensors: { name: string; rows: number; columns: number }[]; // grids of words, as they lie in memory
  keys: string[]; // "load x", "store y", "atomic z"
  totals: number[]; // words of each key, by `iosim kernel count`
  steps: number[][]; // program, line of the listing, key, words; then rectangles, four numbers each
}

export interface LaunchMoment {
  step: number; // how many steps are done
  program: number; // of the step just done; -1 before the first
  line: number; // of the listing; -1 before the first
  key: number;
  words: number[]; // moved so far, by key
  moved: number; // all of them
}

export class LaunchTimeline {
  readonly steps: number;
  readonly moved: number;
  private readonly begins: number[] = []; // how many steps are done after the first one of each program

  constructor(readonly data: LaunchData) {
    this.steps = data.steps.length;
    data.steps.forEach(([program], k) => {
      if (k === 0 || data.steps[k - 1]![0] !== program) this.begins.push(k + 1);
    });
    this.moved = this.at(this.steps).moved;
  }

  at(step: number): LaunchMoment {
    const words = this.data.keys.map(() => 0);
    for (let k = 0; k < step; k++) words[this.data.steps[k]![2]!]! += this.data.steps[k]![3]!;
    const [program = -1, line = -1, key = -1] = this.data.steps[step - 1] ?? [];
    return { step, program, line, key, words, moved: words.reduce((a, b) => a + b, 0) };
  }

  // How many steps are done after the first one of the next or the previous program.
  near(step: number, by: 1 | -1): number {
    return by > 0 ? this.begins.find((x) => x > step) ?? this.steps : this.begins.filter((x) => x < step).pop() ?? 0;
  }

  // What a tensor's grid shows: words that are moved now, and those of the steps before.
  shown(moment: LaunchMoment, tensor: string): Shown {
    const mine = (k: number) => this.data.keys[this.data.steps[k]![2]!]!.split(" ")[1] === tensor;
    const trail: Range[][][] = [];
    let count = 0;
    const now = moment.step - 1;
    for (let k = now - 1; k >= 0 && count < TRAIL; k--) {
      if (!mine(k)) continue;
      trail.unshift(this.boxes(k));
      count += trail[0]!.length;
    }
    const moving = now >= 0 && mine(now) ? this.boxes(now) : [];
    const way = moving.length > 0 ? (this.data.keys[moment.key]!.split(" ")[0] as Shown["way"]) : null;
    return { lead: [], trail: trail.flat().slice(-TRAIL), held: [], moving, way };
  }

  private boxes(step: number): Range[][] {
    const found: Range[][] = [];
    const told = this.data.steps[step]!;
    for (let k = 4; k < told.length; k += 4) found.push([[told[k]!, told[k + 1]!], [told[k + 2]!, told[k + 3]!]]);
    return found;
  }
}

export function panelsOf(data: LaunchData, height: number): Panel[] {
  const found = data.tensors.map(({ name, rows, columns }): Panel => {
    const tensor: Tensor = { type: "Tensor", name, axes: ["row", "column"], wide: false };
    return { tensor, lead: [], rows: 0, columns: 1, width: 0, height: 0, extents: [rows, columns] };
  });
  return sized(found, height);
}
