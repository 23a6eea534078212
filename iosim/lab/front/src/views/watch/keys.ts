// The keyboard: wherever no control takes the key for itself.
import { useEffect, useRef } from "preact/hooks";
import type { RefObject } from "preact";
import type { Going } from "./transport";

export function useKeys(root: RefObject<HTMLElement>, now: { going: Going; playing: boolean }): void {
  const latest = useRef(now);
  latest.current = now;
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const mine = target === document.body || root.current?.contains(target);
      if (!mine || event.ctrlKey || event.metaKey || event.altKey) return;
      if (target.closest("input, select, textarea, [role=tab]")) return;
      const { going, playing } = latest.current;
      const far = event.shiftKey;
      const acts: Record<string, () => void> = {
        ArrowRight: () => (far ? going.transfer(1) : going.step(1)),
        ArrowLeft: () => (far ? going.transfer(-1) : going.step(-1)),
        "]": () => going.turn(1),
        "[": () => going.turn(-1),
        Home: () => going.end("first"),
        End: () => going.end("last"),
      };
      // A button and a summary have a use for the space bar themselves.
      if (!target.closest("button, summary")) acts[" "] = () => going.play(!playing);
      const act = acts[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
}
