// What a screen reader hears: said when it has stood still for a while.
import { useEffect, useState } from "preact/hooks";

const SAID_MS = 700;

export function Said({ text }: { text: string }) {
  const [said, setSaid] = useState("");
  useEffect(() => {
    const wait = setTimeout(() => setSaid(text), SAID_MS);
    return () => clearTimeout(wait);
  }, [text]);
  return <p class="unseen" role="status" aria-live="polite">{said}</p>;
}
