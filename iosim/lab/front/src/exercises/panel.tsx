// Predict, then reveal: the exercises of a view, above it, one at a time.
import { useEffect, useState } from "preact/hooks";
import type { LabData } from "../types";
import { Button } from "../ui";
import { answerOf, wordsOf, type Programs } from "./judge";
import { Predict } from "./predict";
import type { Exercise, Hides, Verdict } from "./types";
import "./exercises.css";

export interface Progress {
  typed: Record<string, string>; // by field: "" is the only one, others are names of tiles
  verdict?: Verdict;
  hints: number; // that are shown
  revealed: boolean;
}
interface Kept {
  open: boolean;
  at: number;
  progress: Record<number, Progress>;
}

// What was typed stays while other views are open.
const kept = new WeakMap<readonly unknown[], Kept>();
const NEW: Progress = { typed: {}, hints: 0, revealed: false };

interface ExercisesProps {
  list: readonly Exercise[];
  lab: LabData;
  onSee: (link: string) => void;
  onHide: (what: Hides) => void;
}

export function Exercises({ list, lab, onSee, onHide }: ExercisesProps) {
  const [state, setState] = useState<Kept>(() => kept.get(list) ?? { open: false, at: 0, progress: {} });
  const known = state.progress[state.at];
  const waits = state.open && !known?.revealed && !known?.verdict?.right;
  const hides = waits ? (list[state.at]?.hides ?? "nothing") : "nothing";
  useEffect(() => onHide(hides), [hides]);
  if (!list.length) return null;
  const set = (next: Kept) => {
    kept.set(list, next);
    setState(next);
  };
  const { at } = state;
  const progress = state.progress[at] ?? NEW;
  const change = (changes: Partial<Progress>) =>
    set({ ...state, progress: { ...state.progress, [at]: { ...progress, ...changes } } });
  const solved = list.filter((_, k) => state.progress[k]?.verdict?.right).length;
  const one = list[at]!;
  return (
    <details class="exercises" open={state.open} onToggle={(e) => {
      const { open } = e.currentTarget;
      if (open !== state.open) set({ ...state, open });
    }}>
      <summary>
        Predict, then reveal: {list.length} {list.length === 1 ? "exercise" : "exercises"}
        {solved > 0 && `, ${solved} solved`}
      </summary>
      <section aria-label={`Exercise ${at + 1} of ${list.length}`}>
        <div class="which">
          <Button label="Previous exercise" disabled={at === 0} onClick={() => set({ ...state, at: at - 1 })}>◀</Button>
          <h3>Exercise {at + 1} of {list.length}</h3>
          <Button label="Next exercise" disabled={at === list.length - 1} onClick={() => set({ ...state, at: at + 1 })}>▶</Button>
        </div>
        {one.question.split(/\n\s*\n/).map((text) => <p class="question" key={text}>{text}</p>)}
        <Predict key={at} of={one} progress={progress} change={change} programs={lab.programs as Programs} />
        <Help of={one} progress={progress} change={change} />
        {progress.revealed && <Revealed of={one} programs={lab.programs as Programs} onSee={onSee} />}
      </section>
    </details>
  );
}

interface HelpProps {
  of: Exercise;
  progress: Progress;
  change: (changes: Partial<Progress>) => void;
}

// Hints one by one; what is right is shown only after something was predicted.
function Help({ of, progress, change }: HelpProps) {
  const { hints, verdict, revealed } = progress;
  return (
    <>
      <div class="controls">
        <Button disabled={hints >= of.hints.length} onClick={() => change({ hints: hints + 1 })}>
          {of.hints.length ? `Hint (${hints} of ${of.hints.length})` : "No hints"}
        </Button>
        <Button disabled={!verdict || revealed} title={verdict ? undefined : "Predict first"} onClick={() => change({ revealed: true })}>
          Reveal
        </Button>
      </div>
      <ol class="hints" aria-live="polite">
        {of.hints.slice(0, hints).map((hint) => <li key={hint}>{hint}</li>)}
      </ol>
    </>
  );
}

function Revealed({ of, programs, onSee }: { of: Exercise; programs: Programs; onSee: (link: string) => void }) {
  return (
    <div class="revealed" role="region" aria-label="Answer">
      <p><strong>{answerOf(of)}</strong></p>
      {of.ask === "choice" && of.least && (
        <ul class="legend">
          {wordsOf(of, programs).map(([name, words]) => (
            <li key={name}>{name}: {words === null ? "nothing fits" : `${words.toLocaleString("en-US")} words`}</li>
          ))}
        </ul>
      )}
      <p>{of.reveal}</p>
      {of.see && <Button onClick={() => onSee(of.see)}>Show it in the view</Button>}
    </div>
  );
}
