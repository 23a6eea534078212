/** Searches that are run for some milliseconds at a time. */

import type { Steps } from "./search";

const SLICE_MS = 10; // between two slices events are answered and frames drawn

/** What a search finds in some time; undefined where it has not ended. */
export function within<R>(search: Steps<R>, ms: number): R | undefined {
  const until = performance.now() + ms;
  do {
    const { done, value } = search.next();
    if (done) return value;
  } while (performance.now() < until);
  return undefined;
}

/** What a search finds in the end; undefined where it is left off before. */
export async function ended<R>(search: Steps<R>, goesOn: () => boolean): Promise<R | undefined> {
  for (;;) {
    await new Promise((done) => setTimeout(done));
    if (!goesOn()) return undefined;
    const found = within(search, SLICE_MS);
    if (found !== undefined) return found;
  }
}
