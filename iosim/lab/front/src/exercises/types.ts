/** Exercises as iosim.lab.exercises writes them. */
import type { Env } from "../engine";

// What of the view would tell the answer, and is hidden until something right is predicted, or the
// answer is revealed: all of it, or the counts beside a run.
export type Hides = "view" | "counts" | "nothing";

interface Asked {
  question: string;
  unit: string;
  answer: string; // a formula over names and values, or a choice
  names: Record<string, string>; // what a formula may use, and what it is
  values: Record<string, string>; // computed numbers, as fractions
  choices: string[];
  tolerance: number;
  hints: string[];
  reveal: string;
  hides: Hides;
  see: string; // settings of the view, as in a link
}
export interface NumberExercise extends Asked { ask: "number" }
export interface FormulaExercise extends Asked {
  ask: "formula";
  count: { program: string; key: string; fixed: Env } | null;
}
export interface ChoiceExercise extends Asked {
  ask: "choice";
  least: { sizes: Record<string, Env>; M: number } | null; // choices are schedules, by their words
}
export interface TilesExercise extends Asked {
  ask: "tiles";
  fit: { program: string; M: number; sizes: Env; best: boolean; params: string[]; tiles: Env };
}
export type Exercise = NumberExercise | FormulaExercise | ChoiceExercise | TilesExercise;

export interface Verdict { right: boolean; says: string }
