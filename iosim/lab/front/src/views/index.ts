// The views, in the order of their tabs.
import type { View } from "../types";
import { view as watch } from "./watch";
import { view as slope } from "./slope";
import { view as tiles } from "./tiles";
import { view as pebbles } from "./pebbles";
import { view as wall } from "./wall";
import { view as hardware } from "./hardware";

export const VIEWS: readonly View[] = [watch, slope, tiles, pebbles, wall, hardware];
