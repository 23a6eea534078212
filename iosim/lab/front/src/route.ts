// Which view is open and what its controls say, in the page's address: `#watch?algo=flash2&N=4096`.
import { useCallback, useEffect, useState } from "preact/hooks";
import type { Params } from "./types";

export interface Route {
  view: string;
  params: Record<string, Params>; // by view, so that a view finds its state again
}

// Browsers refuse addresses that change too often.
const PAUSE_MS = 250;

export function parse(hash: string): { view: string; params: Params } {
  const [view = "", query = ""] = hash.replace(/^#/, "").split("?", 2);
  return { view, params: Object.fromEntries(new URLSearchParams(query)) };
}

export function link(view: string, params: Params): string {
  const query = new URLSearchParams(params).toString();
  return query ? `#${view}?${query}` : `#${view}`;
}

export function useRoute(first: string, known: readonly string[], page: boolean) {
  const [route, setRoute] = useState<Route>(() => {
    const at = parse(page ? location.hash : "");
    return known.includes(at.view)
      ? { view: at.view, params: { [at.view]: at.params } }
      : { view: first, params: {} };
  });
  useEffect(() => {
    if (!page) return;
    const moved = () => {
      const at = parse(location.hash);
      if (known.includes(at.view))
        setRoute((r) => ({ view: at.view, params: { ...r.params, [at.view]: at.params } }));
    };
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, [page]);
  useEffect(() => {
    if (!page) return;
    const wait = setTimeout(() => {
      const now = link(route.view, route.params[route.view] ?? {});
      if (now !== location.hash) history.replaceState(null, "", now);
    }, PAUSE_MS);
    return () => clearTimeout(wait);
  }, [page, route]);
  const open = useCallback((view: string) => setRoute((r) => ({ ...r, view })), []);
  const setParams = useCallback(
    (view: string, changes: Record<string, string | undefined>) =>
      setRoute((r) => {
        const params = { ...r.params[view], ...changes };
        const kept = Object.entries(params).filter((x): x is [string, string] => x[1] !== undefined);
        return { ...r, params: { ...r.params, [view]: Object.fromEntries(kept) } };
      }),
    [],
  );
  return { route, open, setParams };
}
