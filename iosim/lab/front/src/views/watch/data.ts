// What the view is given: schedules by form, patterns of block masks, and where it begins.
import type { BlockMask, Env } from "../../engine";
import type { Family } from "../../forms/family";
import type { LaunchData } from "./launches";

export interface WatchData extends Family {
  blocks: Record<string, string[]>; // patterns of block masks: a 1 for each block that is marked
  examples: { name: string; params: Record<string, string> }[];
  launches?: LaunchData[]; // of Triton kernels; absent in pages of older versions
  start: {
    algorithm: string;
    sizes: Env;
    tiles: Env | null;
    blocks?: Record<string, BlockMask>; // block masks, for one's own instance
  };
}
