// The listing with its current line, and where each open loop is.
import { useEffect, useRef } from "preact/hooks";
import { say } from "../../ui";
import type { Side } from "./setup";
import type { Moment } from "./timeline";

export function Listing({ side, moment }: { side: Side; moment: Moment }) {
  const box = useRef<HTMLOListElement>(null);
  const line = moment.last?.line ?? 0;
  // Only the listing scrolls, never the page.
  useEffect(() => {
    const [list, row] = [box.current, box.current?.children[line] as HTMLElement | undefined];
    if (!list || !row) return;
    const [top, bottom] = [row.offsetTop, row.offsetTop + row.offsetHeight];
    const margin = 2 * row.offsetHeight;
    if (top - margin < list.scrollTop) list.scrollTop = Math.max(0, top - margin);
    else if (bottom + margin > list.scrollTop + list.clientHeight) {
      // In whole lines: none is cut at the top.
      list.scrollTop = Math.ceil((bottom + margin - list.clientHeight) / row.offsetHeight) * row.offsetHeight;
    }
  }, [line, side]);
  const open = new Map(moment.open.map((x) => [x.line, x]));
  return (
    <ol class="listing" ref={box} tabIndex={0} aria-label={`Listing of ${side.program.name}`}>
      {side.program.listing.map((x, k) => {
        const loop = open.get(k);
        const told = loop && `${loop.name} = ${say(loop.turn + 1)} of ${say(loop.turns)}`;
        return (
          <li key={k} aria-current={k === line && moment.last ? "step" : undefined}>
            <span class="line" aria-hidden="true">{k + 1}</span><code>{x.code}</code> {told && <span class="turn">{told}</span>}
          </li>
        );
      })}
    </ol>
  );
}
