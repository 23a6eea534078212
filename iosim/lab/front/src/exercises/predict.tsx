// Where a prediction is typed or chosen, and what is said of it.
import { useState } from "preact/hooks";
import { InputError, type Env } from "../engine";
import { parseWhole, TextField, useName } from "../ui";
import { Unreadable } from "./formula";
import { judgeChoice, judgeFormula, judgeNumber, judgeTiles, type Programs } from "./judge";
import type { Progress } from "./panel";
import type { Exercise, Verdict } from "./types";

interface PredictProps {
  of: Exercise;
  progress: Progress;
  change: (changes: Partial<Progress>) => void;
  programs: Programs;
}
type Wrong = { field: string; message: string };

export function Predict({ of, progress, change, programs }: PredictProps) {
  const [wrong, setWrong] = useState<Wrong>();
  const check = (event: Event) => {
    event.preventDefault();
    const found = judged(of, progress.typed, programs);
    setWrong("message" in found ? found : undefined);
    if ("says" in found) change({ verdict: found });
  };
  const type = (field: string, text: string) => {
    setWrong(undefined);
    change({ typed: { ...progress.typed, [field]: text }, verdict: undefined });
  };
  const props = { wrong, typed: progress.typed, type };
  return (
    <form class="predict" onSubmit={check}>
      {of.ask === "choice" ? (
        <Choices {...props} choices={of.choices} />
      ) : of.ask === "tiles" ? (
        of.fit.params.map((name) => <Typed key={name} {...props} field={name} label={name} />)
      ) : (
        <Typed {...props} field="" label={of.ask === "formula" ? "Your formula" : "Your prediction"} unit={of.unit} wide />
      )}
      <button type="submit" class="button">Check</button>
      {of.ask === "formula" && <Names names={of.names} />}
      <p role="status" class={progress.verdict ? (progress.verdict.right ? "right" : "wrong") : undefined}>
        {progress.verdict && `${progress.verdict.right ? "✓" : "✗"} ${progress.verdict.says}`}
      </p>
    </form>
  );
}

// A verdict, or the field and what is wrong with what was typed there.
function judged(of: Exercise, typed: Record<string, string>, programs: Programs): Verdict | Wrong {
  try {
    switch (of.ask) {
      case "number": return judgeNumber(of, typed[""] ?? "");
      case "formula": return judgeFormula(of, typed[""] ?? "", programs);
      case "choice": return typed[""] ? judgeChoice(of, typed[""]) : { field: "", message: "choose one" };
      case "tiles": {
        const tiles: Env = {};
        for (const name of of.fit.params) {
          const value = parseWhole(typed[name] ?? "");
          if (value === undefined) return { field: name, message: `${name} is a whole number, at most 2^40` };
          tiles[name] = value;
        }
        return judgeTiles(of, tiles, programs);
      }
    }
  } catch (error) {
    if (error instanceof Unreadable) return { field: "", message: error.message };
    if (error instanceof InputError) return { field: error.field ?? "", message: error.message };
    throw error;
  }
}

interface FieldProps {
  wrong: Wrong | undefined;
  typed: Record<string, string>;
  type: (field: string, text: string) => void;
}

// Anything may be sent: what is wrong with it is said when it is checked.
function Typed({ wrong, typed, type, field, label, unit, wide }: FieldProps & { field: string; label: string; unit?: string; wide?: boolean }) {
  return (
    <TextField
      label={label}
      value={typed[field] ?? ""}
      check={() => undefined}
      wrong={wrong && wrong.field === field ? wrong.message : undefined}
      hint={unit}
      width={wide ? "20em" : "7em"}
      onChange={(text) => type(field, text)}
    />
  );
}

function Choices({ wrong, typed, type, choices }: FieldProps & { choices: readonly string[] }) {
  const name = useName();
  return (
    <fieldset>
      <legend>Your prediction</legend>
      {choices.map((x) => (
        <label key={x}>
          <input type="radio" name={name} value={x} checked={typed[""] === x} onChange={() => type("", x)} /> {x}
        </label>
      ))}
      {wrong && <span class="wrong" role="alert">{wrong.message}</span>}
    </fieldset>
  );
}

function Names({ names }: { names: Record<string, string> }) {
  return (
    <p class="hint">
      {Object.entries(names).map(([name, says]) => `${name}: ${says}`).join("; ")}. Signs: + − × / ^ ( ) ⌈ ⌉ ⌊ ⌋, or
      ceil(), floor(), min(), max().
    </p>
  );
}
