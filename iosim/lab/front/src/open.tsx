// A button that opens a file of data; dropping one on the page does the same.
import { useRef } from "preact/hooks";
import { Button } from "./ui/controls";

export function Open({ onFile }: { onFile: (file: File | undefined) => void }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <Button onClick={() => input.current?.click()} title="Or drop a file on the page">Open data…</Button>
      <input
        ref={input}
        type="file"
        accept=".json,.html,application/json,text/html"
        aria-label="A file of the lab's data"
        hidden
        onChange={(event) => {
          onFile(event.currentTarget.files?.[0]);
          event.currentTarget.value = "";
        }}
      />
    </>
  );
}
