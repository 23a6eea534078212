/** Formulas at many points, for tests: a list of questions on stdin, a list of answers on stdout. */
import { evaluate, type Entry } from "./formulas";

declare const process: { stdin: AsyncIterable<Uint8Array>; stdout: { write(text: string): void } };

interface Ask { entries: Entry[]; places: number[]; points: Record<string, number>[] }

const decoder = new TextDecoder();
let text = "";
for await (const chunk of process.stdin) text += decoder.decode(chunk, { stream: true });
const answers = (JSON.parse(text) as Ask[]).map(({ entries, places, points }) =>
  points.map((point) => {
    const values = evaluate(entries, point);
    return places.map((k) => values[k]);
  }));
process.stdout.write(JSON.stringify(answers));
