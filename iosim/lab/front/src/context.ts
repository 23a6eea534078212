// What the shell gives to all views without passing it along.
import { createContext } from "preact";
import { useContext, useLayoutEffect, useRef } from "preact/hooks";

// Asks Python, where there is one: in a notebook.  What may be asked is in iosim/lab/widget.py.
export type Ask = (what: string, args: Record<string, unknown>) => Promise<unknown>;

interface Shell {
  keys: EventTarget | null; // where key presses are heard; null turns shortcuts off
  ask?: Ask;
}

export const ShellContext = createContext<Shell>({ keys: null });

export const useAsk = (): Ask | undefined => useContext(ShellContext).ask;

const MOVES = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"];

// Whether the element that has the focus uses the key itself.
function taken(event: KeyboardEvent): boolean {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return true;
  const on = event.composedPath()[0];
  if (!(on instanceof Element)) return false;
  if (on.closest("dialog")) return true;
  if (on.matches("input[type=range]")) return MOVES.includes(event.key);
  if (on.matches("input[type=checkbox], input[type=radio]")) return event.key === " " || MOVES.includes(event.key);
  if (on.matches("input, select, textarea, [contenteditable]")) return true;
  return on.matches("button, a, summary") && (event.key === " " || event.key === "Enter");
}

// Shortcuts, by `KeyboardEvent.key`: useKeys({ ArrowRight: step, " ": play }).
export function useKeys(keys: Record<string, () => void>): void {
  const { keys: target } = useContext(ShellContext);
  const now = useRef(keys);
  now.current = keys;
  // At once, not after the next frame: a key that is pressed before it is meant as the page is now.
  useLayoutEffect(() => {
    if (!target) return;
    const pressed = (event: Event) => {
      const call = now.current[(event as KeyboardEvent).key];
      if (!call || taken(event as KeyboardEvent)) return;
      event.preventDefault();
      call();
    };
    target.addEventListener("keydown", pressed);
    return () => target.removeEventListener("keydown", pressed);
  }, [target]);
}
