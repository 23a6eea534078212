// The shell: tabs, the theme, and what is said where data or a view is broken.
import { useMemo, useState } from "preact/hooks";
import { check } from "./check";
import { Guard } from "./guard";
import { useRoute } from "./route";
import type { LabData, View } from "./types";
import { Select } from "./ui/controls";
import { useMedia } from "./ui/player";
import { VIEWS } from "./views";

export function App({ given, page }: { given: unknown; page: boolean }) {
  const checked = useMemo(() => check(given), [given]);
  const [theme, setTheme] = useState("system");
  const dark = useMedia("(prefers-color-scheme: dark)");
  return (
    <div class="iosim-lab" data-theme={theme === "system" ? (dark ? "dark" : "light") : theme}>
      {"wrong" in checked ? (
        <p class="broken" role="alert">{checked.wrong}</p>
      ) : (
        <Lab lab={checked.data} page={page} theme={theme} setTheme={setTheme} />
      )}
    </div>
  );
}

interface LabProps {
  lab: LabData;
  page: boolean;
  theme: string;
  setTheme: (theme: string) => void;
}

function Lab({ lab, page, theme, setTheme }: LabProps) {
  const shown = VIEWS.filter((v) => v.id in lab.views);
  const { route, open, setParams } = useRoute(shown[0]?.id ?? "", shown.map((v) => v.id), page);
  const view = shown.find((v) => v.id === route.view);
  return (
    <>
      <header class="top">
        <h1>iosim lab</h1>
        <Tabs views={shown} open={route.view} onOpen={open} />
        <Select label="Theme" value={theme} options={["system", "light", "dark"]} onChange={setTheme} />
      </header>
      {view ? (
        <main id={`panel-${view.id}`} role="tabpanel" aria-labelledby={`tab-${view.id}`} key={view.id}>
          <h2>{view.title}</h2>
          <p class="says">{view.says}</p>
          <Guard name={view.title}>
            <view.Component
              data={lab.views[view.id]}
              lab={lab}
              exercises={lab.exercises[view.id] ?? []}
              params={route.params[view.id] ?? {}}
              setParams={(changes) => setParams(view.id, changes)}
            />
          </Guard>
        </main>
      ) : (
        <p class="broken" role="alert">The data has no view.</p>
      )}
    </>
  );
}

interface TabsProps {
  views: readonly View[];
  open: string;
  onOpen: (id: string) => void;
}

// One tab stop; arrows, Home and End move among the tabs.
function Tabs({ views, open, onOpen }: TabsProps) {
  const move = (event: KeyboardEvent) => {
    const at = views.findIndex((v) => v.id === open);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: views.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = views[(to + views.length) % views.length];
    if (!next) return;
    onOpen(next.id);
    (event.currentTarget as HTMLElement).querySelector<HTMLElement>(`#tab-${next.id}`)?.focus();
  };
  return (
    <div role="tablist" aria-label="Views" class="tabs" onKeyDown={move}>
      {views.map((v) => (
        <button
          type="button"
          role="tab"
          id={`tab-${v.id}`}
          key={v.id}
          aria-selected={v.id === open}
          aria-controls={v.id === open ? `panel-${v.id}` : undefined}
          tabIndex={v.id === open ? 0 : -1}
          onClick={() => onOpen(v.id)}
        >
          {v.title}
        </button>
      ))}
    </div>
  );
}
