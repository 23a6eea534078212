/** Exercises over JSON lines, for tests: formulas are read, and predictions are judged. */
import type { ProgramData } from "../engine";
import { parseFraction } from "./fraction";
import { evaluate, parse, Unreadable, written } from "./formula";
import { answerOf, judgeChoice, judgeFormula, judgeNumber, judgeTiles, wordsOf } from "./judge";
import type { Exercise } from "./types";

declare const process: { stdin: AsyncIterable<Uint8Array>; stdout: { write(text: string): void } };

interface Ask {
  formula?: string; values: Record<string, string>;
  exercise: Exercise; programs: Record<string, ProgramData>; typed: string; tiles: Record<string, number>;
}

function answer(ask: Ask): unknown {
  if (ask.formula !== undefined) {
    const found = parse(ask.formula, Object.keys(ask.values));
    const values = Object.fromEntries(Object.entries(ask.values).map(([k, x]) => [k, parseFraction(x)]));
    const { n, d } = evaluate(found, values);
    return { value: `${n}/${d}`, written: written(found) };
  }
  const of = ask.exercise;
  const judged = (): unknown => {
    switch (of.ask) {
      case "number": return judgeNumber(of, ask.typed);
      case "formula": return judgeFormula(of, ask.typed, ask.programs);
      case "choice": return { ...judgeChoice(of, ask.typed), words: wordsOf(of, ask.programs).map(([k, x]) => [k, x && String(x)]) };
      case "tiles": return judgeTiles(of, ask.tiles, ask.programs);
    }
  };
  return { verdict: judged(), answer: answerOf(of) };
}

function reply(line: string): string {
  try {
    return JSON.stringify({ is: answer(JSON.parse(line) as Ask) });
  } catch (error) {
    if (error instanceof Unreadable) return JSON.stringify({ error: error.message });
    return JSON.stringify({ bug: String((error as Error).stack) });
  }
}

let rest = "";
const decoder = new TextDecoder();
for await (const chunk of process.stdin) {
  const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
  rest = lines.pop()!;
  for (const line of lines) if (line) process.stdout.write(`${reply(line)}\n`);
}
