// Which view is open and what its controls say, in the page's address: `#watch?algo=flash2&N=4096`.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Params } from "./types";

interface Route {
  view: string;
  params: Record<string, Params>; // by view, so that a view finds its state again
  visit: number; // rises where the address is changed by hand: the view begins anew
}

// Browsers refuse addresses that change too often.
const PAUSE_MS = 250;

function parse(hash: string): { view: string; params: Params } {
  const [, view = "", query = ""] = /^#?([^?]*)\??(.*)$/s.exec(hash) ?? [];
  return { view, params: Object.fromEntries(new URLSearchParams(query)) };
}

function link({ view, params }: Route): string {
  const query = new URLSearchParams(params[view]).toString();
  return query ? `#${view}?${query}` : `#${view}`;
}

// `known` are names of views; the first is open where the address names none of them.
export function useRoute(known: readonly string[], page: boolean, say: (text: string) => void) {
  const [route, setRoute] = useState<Route>(() => {
    const { view, params } = parse(page ? location.hash : "");
    return known.includes(view)
      ? { view, params: { [view]: params }, visit: 0 }
      : { view: known[0] ?? "", params: {}, visit: 0 };
  });
  const first = useRef(true); // data that is opened later has views of its own
  const seen = useRef(page ? location.hash : ""); // as this page wrote or read it last
  useEffect(() => {
    if (!page) return;
    const refuse = (view: string) =>
      view && !known.includes(view) && say(`The address names a view ${JSON.stringify(view)}; there are ${known.join(", ")}.`);
    const moved = () => {
      seen.current = location.hash;
      const { view, params } = parse(seen.current);
      refuse(view);
      if (known.includes(view))
        setRoute((r) => ({ view, params: { ...r.params, [view]: params }, visit: r.visit + 1 }));
    };
    if (first.current) refuse(parse(location.hash).view);
    first.current = false;
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, [page, known.join()]);
  useEffect(() => {
    if (!page || !route.view) return;
    const wait = setTimeout(() => {
      if (location.hash !== seen.current) return; // changed by hand, of which `moved` is not told yet
      const now = link(route);
      if (now === seen.current) return;
      history.replaceState(null, "", now);
      seen.current = location.hash; // as the browser writes it
    }, PAUSE_MS);
    return () => clearTimeout(wait);
  }, [page, route]);
  const open = useCallback((view: string) => setRoute((r) => ({ ...r, view })), []);
  const setParams = useCallback(
    (view: string, changes: Record<string, string | undefined>) =>
      setRoute((r) => {
        const params = Object.entries({ ...r.params[view], ...changes });
        const kept = params.filter((x): x is [string, string] => x[1] !== undefined);
        return { ...r, params: { ...r.params, [view]: Object.fromEntries(kept) } };
      }),
    [],
  );
  // Data with other views than before may not have the open one.
  const view = known.includes(route.view) ? route.view : (known[0] ?? "");
  return { route: { ...route, view }, open, setParams };
}
