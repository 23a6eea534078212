// The help panel: what keys do, here and in the open view.
import type { Ref } from "preact";
import type { View } from "./types";
import { Checkbox } from "./ui/controls";

interface HelpProps {
  dialog: Ref<HTMLDialogElement>;
  view: View | undefined;
  views: readonly View[];
  keysOn: boolean;
  setKeysOn: (on: boolean) => void;
  version: string;
}

type Key = readonly [key: string, does: string];

export function Help({ dialog, view, views, keysOn, setKeysOn, version }: HelpProps) {
  const keys: Key[] = [
    ...views.map((v, k): Key => [String(k + 1), `open ${v.title}`]),
    ["?", "this panel"],
    ["Esc", "close this panel"],
    ["← → Home End", "on the tabs: the next view, the first, the last"],
  ];
  return (
    <dialog ref={dialog} class="help" aria-label="Help">
      {/* The first to have the focus, so that the panel opens at its beginning. */}
      <h2 tabIndex={-1} autoFocus>Help</h2>
      <p>
        Every control has a name and is reached with Tab. What the controls say is in the page's
        address: copy it to give a view and its state to others. A file that <code>iosim lab</code>{" "}
        wrote opens where it is dropped on the page.
      </p>
      <Keys of="Everywhere" keys={keys} />
      {view?.keys && <Keys of={view.title} keys={view.keys} />}
      <Checkbox label="Shortcuts of a single key" value={keysOn} onChange={setKeysOn} />
      <p class="says">iosim {version}</p>
      <form method="dialog">
        <button class="button" type="submit">Close</button>
      </form>
    </dialog>
  );
}

function Keys({ of, keys }: { of: string; keys: readonly Key[] }) {
  return (
    <>
      <h3>{of}</h3>
      <dl class="keys">
        {keys.map(([key, does]) => (
          <div key={key}>
            <dt><kbd>{key}</kbd></dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}
