// The lab where its data is good: tabs, the open view, and help.
import { useEffect, useRef, useState } from "preact/hooks";
import { useKeys } from "./context";
import { Exercises } from "./exercises/panel";
import type { Exercise, Hides } from "./exercises/types";
import { Guard } from "./guard";
import { Help } from "./help";
import { Open } from "./open";
import { useRoute } from "./route";
import { THEMES, type useTheme } from "./theme";
import type { LabData, View } from "./types";
import { Button, Select, useName } from "./ui/controls";
import { VIEWS } from "./views";

interface LabProps {
  lab: LabData;
  page: boolean;
  theme: ReturnType<typeof useTheme>;
  keysOn: boolean;
  setKeysOn: (on: boolean) => void;
  onFile: (file: File | undefined) => void;
  onNotice: (text: string) => void;
}

export function Lab({ lab, page, theme, keysOn, setKeysOn, onFile, onNotice }: LabProps) {
  const shown = VIEWS.filter((v) => v.id in lab.views);
  const { route, open, setParams } = useRoute(shown.map((v) => v.id), page, onNotice);
  const view = shown.find((v) => v.id === route.view);
  const name = useName();
  const help = useRef<HTMLDialogElement>(null);
  const [hides, setHides] = useState<Hides>("nothing");
  const shell = Object.fromEntries(shown.map((v, k) => [String(k + 1), () => open(v.id)]));
  useKeys({ ...shell, "?": () => help.current?.showModal() });
  useEffect(() => {
    if (page) document.title = view ? `${view.title} · iosim lab` : "iosim lab";
  }, [page, view]);
  // A page's address opens a view anew; a notebook's cell has none.
  const see = (id: string, link: string) => {
    if (page) location.hash = `${id}?${link}`;
    else setParams(id, Object.fromEntries(new URLSearchParams(link)));
  };
  return (
    <>
      <header class="top">
        <h1>iosim lab</h1>
        <Tabs views={shown} open={route.view} onOpen={open} name={name} />
        <div class="tools">
          <Select label="Theme" value={theme.chosen} options={THEMES} onChange={theme.choose} />
          <Open onFile={onFile} />
          <Button onClick={() => help.current?.showModal()}>Help</Button>
        </div>
      </header>
      <Help dialog={help} view={view} views={shown} keysOn={keysOn} setKeysOn={setKeysOn} version={lab.iosim} />
      {view ? (
        <main key={`${view.id}-${route.visit}`}>
          <div id={`${name}-panel`} role="tabpanel" aria-labelledby={`${name}-${view.id}`} data-view={view.id}>
            <div class="head">
              <h2>{view.title}</h2>
              <p class="says">{view.says}</p>
              <Guard name={`${view.title}: exercises`} of={lab}>
                <Exercises list={(lab.exercises[view.id] ?? []) as readonly Exercise[]} lab={lab} onSee={(link) => see(view.id, link)} onHide={setHides} />
              </Guard>
            </div>
            {hides === "view" && <p class="hint">What the view shows comes back when you have predicted, or when the exercises are closed.</p>}
            <div class={`view-${view.id}`} data-hides={hides} inert={hides === "view"}>
              <Guard name={view.title} of={lab}>
                <view.Component
                  data={lab.views[view.id]}
                  lab={lab}
                  exercises={lab.exercises[view.id] ?? []}
                  params={route.params[view.id] ?? {}}
                  setParams={(changes) => setParams(view.id, changes)}
                />
              </Guard>
            </div>
          </div>
        </main>
      ) : (
        <p class="broken" role="alert">The data is of the lab, but it has no view that this page can show.</p>
      )}
    </>
  );
}

interface TabsProps {
  views: readonly View[];
  open: string;
  onOpen: (id: string) => void;
  name: string; // of the lab, which ids begin with
}

// One tab stop; arrows, Home and End move among the tabs.
function Tabs({ views, open, onOpen, name }: TabsProps) {
  const move = (event: KeyboardEvent) => {
    const at = views.findIndex((v) => v.id === open);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: views.length - 1 }[event.key];
    const next = to === undefined ? undefined : views[(to + views.length) % views.length];
    if (!next) return;
    event.preventDefault();
    onOpen(next.id);
    (event.currentTarget as HTMLElement).querySelector<HTMLElement>(`#${name}-${next.id}`)?.focus();
  };
  return (
    <div role="tablist" aria-label="Views" class="tabs" onKeyDown={move}>
      {views.map((v) => (
        <button
          type="button"
          role="tab"
          id={`${name}-${v.id}`}
          key={v.id}
          aria-selected={v.id === open}
          aria-controls={v.id === open ? `${name}-panel` : undefined}
          tabIndex={v.id === open ? 0 : -1}
          onClick={() => onOpen(v.id)}
        >
          {v.title}
        </button>
      ))}
    </div>
  );
}
