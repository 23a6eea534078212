// Questions to Python through a widget's messages: each has a number, and so has its answer.
import type { Ask } from "./context";

export interface Model {
  get(name: string): unknown;
  on(event: string, call: (...given: any[]) => void): void;
  off(event: string, call: (...given: any[]) => void): void;
  send(content: unknown): void;
}

interface Answer {
  id: number;
  value?: unknown;
  wrong?: string; // one line, instead of a value
}

const PATIENCE_MS = 20_000;

export function asking(model: Model): Ask {
  let asked = 0;
  return (what, args) =>
    new Promise((resolve, reject) => {
      const id = ++asked;
      const done = (end: () => void) => {
        clearTimeout(wait);
        model.off("msg:custom", heard);
        end();
      };
      const heard = (answer: Answer) => {
        if (answer?.id !== id) return;
        done(() => (answer.wrong === undefined ? resolve(answer.value) : reject(new Error(answer.wrong))));
      };
      const wait = setTimeout(() => done(() => reject(new Error("Python did not answer"))), PATIENCE_MS);
      model.on("msg:custom", heard);
      model.send({ id, what, args });
    });
}
