// Numbers of this view as they are read.
export const gb = (bytes: number): string => `${(bytes / 1e9).toPrecision(bytes < 1e12 ? 4 : 5)} GB`;
export const percent = (share: number): string => `${(100 * share).toFixed(share < 0.1 ? 2 : 1)} %`;
