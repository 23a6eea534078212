/**
 * Questions about programs as JSON lines: {"program": name, "data": …} makes a program known, any
 * other line is asked of one, and is answered by one line.
 */

import { InputError, ProgramError } from "./errors";
import type { BlockMask, Env, ProgramData } from "./types";

declare const process: {
  stdin: AsyncIterable<Uint8Array>;
  stdout: { write(text: string): void };
};

/** What every question says. */
export interface Asked { program: string; sizes: Env; tiles: Env; masks?: Record<string, BlockMask> }

/** Answers what comes in, until nothing more does. */
export async function serve<A extends Asked>(answer: (ask: A, program: ProgramData) => unknown): Promise<void> {
  const programs = new Map<string, ProgramData>();
  const reply = (line: string): string => {
    const ask = JSON.parse(line) as A & { data?: ProgramData };
    if (ask.data !== undefined) {
      programs.set(ask.program, ask.data);
      return "";
    }
    try {
      return `${JSON.stringify({ is: answer(ask, programs.get(ask.program)!) })}\n`;
    } catch (error) {
      if (error instanceof InputError) return `${JSON.stringify({ error: error.message, field: error.field })}\n`;
      if (error instanceof ProgramError) return `${JSON.stringify({ error: error.message, program: true })}\n`;
      return `${JSON.stringify({ bug: String((error as Error).stack) })}\n`;
    }
  };
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of process.stdin) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop()!;
    for (const line of lines) if (line) process.stdout.write(reply(line));
  }
}
