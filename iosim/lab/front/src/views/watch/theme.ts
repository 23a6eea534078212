// The theme that is in force, for what is drawn and not styled.
import { useEffect, useState } from "preact/hooks";
import type { RefObject } from "preact";

export function useTheme(root: RefObject<HTMLElement>): string {
  const [theme, setTheme] = useState("");
  useEffect(() => {
    const lab = root.current?.closest<HTMLElement>(".iosim-lab");
    if (!lab) return;
    const look = () => setTheme(lab.dataset.theme ?? "");
    look();
    const seen = new MutationObserver(look);
    seen.observe(lab, { attributes: true, attributeFilter: ["data-theme"] });
    return () => seen.disconnect();
  }, []);
  return theme;
}
