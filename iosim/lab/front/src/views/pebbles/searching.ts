// The search in slices, so that the page answers while it runs and it can be stopped.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Graph, Position, Rules } from "./rules";
import { type Answer, type Progress, search } from "./search";

const SLICE_MS = 12;

export interface Searching {
  progress: Progress | undefined; // while it runs
  start: (graph: Graph, rules: Rules, from: Position, done: (answer: Answer) => void) => void;
  stop: () => void;
}

export function useSearch(): Searching {
  const [progress, setProgress] = useState<Progress>();
  const timer = useRef(0);
  const finish = useRef<(answer: Answer) => void>();
  const halt = () => {
    clearTimeout(timer.current);
    finish.current = undefined;
    setProgress(undefined);
  };
  useEffect(() => () => clearTimeout(timer.current), []);
  return {
    progress,
    start: (graph, rules, from, done) => {
      halt();
      finish.current = done;
      const run = search(graph, rules, from);
      const slice = () => {
        const until = performance.now() + SLICE_MS;
        for (;;) {
          const step = run.next();
          if (step.done) {
            halt();
            done(step.value);
            return;
          }
          if (performance.now() < until) continue;
          setProgress(step.value);
          timer.current = window.setTimeout(slice);
          return;
        }
      };
      slice();
    },
    stop: () => {
      const done = finish.current;
      halt();
      done?.({ stopped: "it was stopped" });
    },
  };
}
