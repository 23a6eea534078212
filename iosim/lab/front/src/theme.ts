// Light or dark: as chosen, or as the system or the notebook around has it.
import { useEffect, useState } from "preact/hooks";
import { useMedia } from "./ui/player";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const KEY = "iosim-lab-theme";

// What JupyterLab, VS Code and marimo write on a page; undefined where nobody says.
function around(): boolean | undefined {
  const { body, documentElement: root } = document;
  const told = body.dataset.jpThemeLight;
  if (told !== undefined) return told === "false";
  const names = `${body.className} ${root.className}`.split(/\s+/);
  if (names.some((x) => x === "dark" || x === "vscode-dark" || x === "dark-theme")) return true;
  if (names.some((x) => x === "light" || x === "vscode-light" || x === "light-theme")) return false;
  return undefined;
}

// Storage may be refused, as for a file from the disk.
function kept(write?: Theme): Theme {
  try {
    if (write) localStorage.setItem(KEY, write);
    return THEMES.find((x) => x === localStorage.getItem(KEY)) ?? "system";
  } catch {
    return write ?? "system";
  }
}

export function useTheme(page: boolean) {
  const [chosen, setChosen] = useState<Theme>(page ? kept : "system");
  const system = useMedia("(prefers-color-scheme: dark)");
  const [outside, setOutside] = useState(page ? undefined : around);
  useEffect(() => {
    if (page) return;
    const seen = new MutationObserver(() => setOutside(around()));
    for (const x of [document.body, document.documentElement])
      seen.observe(x, { attributes: true, attributeFilter: ["class", "data-jp-theme-light"] });
    return () => seen.disconnect();
  }, [page]);
  const dark = chosen === "system" ? (outside ?? system) : chosen === "dark";
  const choose = (theme: string) => setChosen(page ? kept(theme as Theme) : (theme as Theme));
  return { chosen, choose, shown: dark ? "dark" : "light" };
}
