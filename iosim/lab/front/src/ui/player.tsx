// Playing through steps: a clock, and the buttons that move it.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Button, Select } from "./controls";
import { say } from "./numbers";

export function useMedia(query: string): boolean {
  const [on, setOn] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const changed = () => setOn(media.matches);
    changed();
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, [query]);
  return on;
}

export const useStill = () => useMedia("(prefers-reduced-motion: reduce)");

// Calls `tick` with whole steps, `rate` a second, while `on`; fewer and larger ones without motion.
export function useClock(on: boolean, rate: number, tick: (steps: number) => void): void {
  const still = useStill();
  const call = useRef(tick);
  call.current = tick;
  // Before anything is drawn: after what shows that it stands, no step comes.
  useLayoutEffect(() => {
    if (!on) return;
    let frame = 0;
    let last: number | undefined;
    let due = 0;
    const wait = still ? 1000 : 0; // milliseconds between two pictures
    const run = (now: number) => {
      frame = requestAnimationFrame(run);
      last ??= now;
      if (now - last < wait) return;
      due += ((now - last) * rate) / 1000;
      last = now;
      const steps = Math.floor(due);
      due -= steps;
      if (steps > 0) call.current(steps);
    };
    frame = requestAnimationFrame(run);
    return () => cancelAnimationFrame(frame);
  }, [on, rate, still]);
}

interface PlayerProps {
  playing: boolean;
  onPlay: (playing: boolean) => void;
  onStep: (by: number) => void;
  onEnd: (end: "first" | "last") => void;
  rate: number;
  rates?: readonly number[];
  unit?: string; // what the rate counts
  onRate: (rate: number) => void;
  children?: ComponentChildren; // further buttons
}

export function Player({ playing, onPlay, onStep, onEnd, rate, rates = [1, 4, 16, 64, 256, 1024], unit = "steps", onRate, children }: PlayerProps) {
  return (
    <div class="player" role="group" aria-label="Playback">
      <Button label="To the start" onClick={() => onEnd("first")}>⇤</Button>
      <Button label="Step back" onClick={() => onStep(-1)}>←</Button>
      <Button label={playing ? "Pause" : "Play"} class="play" onClick={() => onPlay(!playing)}>
        {playing ? "❚❚" : "▶"}
      </Button>
      <Button label="Step forward" onClick={() => onStep(1)}>→</Button>
      <Button label="To the end" onClick={() => onEnd("last")}>⇥</Button>
      <Select
        label="Speed"
        value={String(rate)}
        options={rates.map((x) => ({ value: String(x), label: `${say(x)} ${unit}/s` }))}
        onChange={(x) => onRate(Number(x))}
      />
      {children}
    </div>
  );
}
