// The listing with its current line, and where each open loop is.
import { useEffect, useRef } from "preact/hooks";

interface ListingProps {
  name: string;
  lines: readonly { code: string; number?: number }[]; // counted from 1 where they have no number
  line: number; // the current one; -1: none
  told: (line: number) => string; // beside a line
}

export function Listing({ name, lines, line, told }: ListingProps) {
  const box = useRef<HTMLOListElement>(null);
  // Only the listing scrolls, never the page.
  useEffect(() => {
    const [list, row] = [box.current, box.current?.children[Math.max(0, line)] as HTMLElement | undefined];
    if (!list || !row) return;
    const [top, bottom] = [row.offsetTop, row.offsetTop + row.offsetHeight];
    const margin = 2 * row.offsetHeight;
    if (top - margin < list.scrollTop) list.scrollTop = Math.max(0, top - margin);
    else if (bottom + margin > list.scrollTop + list.clientHeight) {
      // In whole lines: none is cut at the top.
      list.scrollTop = Math.ceil((bottom + margin - list.clientHeight) / row.offsetHeight) * row.offsetHeight;
    }
  }, [line, lines]);
  return (
    <ol class="listing" ref={box} tabIndex={0} aria-label={`Listing of ${name}`}>
      {lines.map((x, k) => (
        <li key={k} aria-current={k === line ? "step" : undefined}>
          <span class="line" aria-hidden="true">{x.number ?? k + 1}</span><code>{x.code}</code> {told(k) && <span class="turn">{told(k)}</span>}
        </li>
      ))}
    </ol>
  );
}
