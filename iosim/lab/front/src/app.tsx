// The shell: the data, the theme, files that are opened, and what is said where something is broken.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Checked, check, read } from "./check";
import { type Ask, ShellContext } from "./context";
import { Lab } from "./lab";
import { Open } from "./open";
import { useTheme } from "./theme";
import { Button } from "./ui/controls";

interface AppProps {
  given: unknown; // the data, unchecked
  page: boolean; // of its own, and not a cell of a notebook
  ask?: Ask;
}

export function App({ given, page, ask }: AppProps) {
  const root = useRef<HTMLDivElement>(null);
  const [keys, setKeys] = useState<EventTarget | null>(null);
  const [keysOn, setKeysOn] = useState(true);
  const [opened, setOpened] = useState<Checked>();
  const [notice, setNotice] = useState("");
  const [over, setOver] = useState(false);
  const theme = useTheme(page);
  const own = useMemo(() => check(given, page ? "This page's data" : "The widget's data"), [given]);
  const checked = opened ?? own;

  useEffect(() => setOpened(undefined), [given]);
  useEffect(() => setKeys(page ? document : root.current), [page]);
  useEffect(() => (page ? onFailure(setNotice) : undefined), [page]);

  const openFile = async (file: File | undefined) => {
    if (!file) return;
    const found = await read(file).catch((error) => ({ wrong: `${file.name} can't be read (${error.message}).` }));
    // What is shown stays where the file is none of the lab.
    setNotice("wrong" in found ? found.wrong : "");
    if ("data" in found) setOpened(found);
  };
  const files = {
    onDragOver: (event: DragEvent) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      setOver(true);
    },
    onDragLeave: () => setOver(false),
    onDrop: (event: DragEvent) => {
      setOver(false);
      if (!event.dataTransfer?.files.length) return;
      event.preventDefault();
      void openFile(event.dataTransfer.files[0]);
    },
  };
  return (
    <ShellContext.Provider value={{ keys: keysOn ? keys : null, ask }}>
      <div class="iosim-lab" ref={root} data-theme={theme.shown} data-over={over} onKeyDown={page ? undefined : keep} {...files}>
        {notice && <Notice text={notice} onClose={() => setNotice("")} />}
        {"wrong" in checked ? (
          <main>
            <h1>iosim lab</h1>
            <p class="broken" role="alert">{checked.wrong}</p>
            <Open onFile={openFile} />
          </main>
        ) : (
          <Lab lab={checked.data} page={page} theme={theme} keysOn={keysOn} setKeysOn={setKeysOn} onFile={openFile} onNotice={setNotice} />
        )}
      </div>
    </ShellContext.Provider>
  );
}

// A notebook's shortcuts of a single key, as JupyterLab's, which insert and delete cells, are not
// meant by keys that are pressed in a widget.
function keep(event: KeyboardEvent): void {
  if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
}

function Notice({ text, onClose }: { text: string; onClose: () => void }) {
  return (
    <div class="broken notice" role="alert">
      <p>{text}</p>
      <Button onClick={onClose}>Close</Button>
    </div>
  );
}

// What fails outside of drawing, as in a timer: it is said, and the page goes on.
function onFailure(say: (text: string) => void): () => void {
  const failed = (event: ErrorEvent) => say(`Something failed: ${event.message}.`);
  const refused = (event: PromiseRejectionEvent) => say(`Something failed: ${event.reason?.message ?? event.reason}.`);
  addEventListener("error", failed);
  addEventListener("unhandledrejection", refused);
  return () => {
    removeEventListener("error", failed);
    removeEventListener("unhandledrejection", refused);
  };
}
