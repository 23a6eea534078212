/** A bound program, one event at a time and in the order of execution. */

import { Names, once, resolved, unstacked, type Place, type Range, type Values } from "./space";
import type { Index, Instance, Node, ProgramData, Plain } from "./types";

interface Step { /** of the program's listing */ line: number }
export interface Transfer extends Step {
  kind: "load" | "store"; buffer: string; tensor: string;
  /** One [first, past] per axis of the tensor; a position that only the data tells is `UNKNOWN`. */
  ranges: Range[];
  words: number;
}
export interface Reserve extends Step { kind: "alloc" | "free"; buffer: string; words: number }
export interface Operation extends Step { kind: "op"; name: string; operands: string[] }
/** A loop's next iteration, which covers start … stop − 1. */
export interface Turn extends Step {
  kind: "turn"; axis: string; var: string; start: number; stop: number; depth: number;
}
export type Event = Transfer | Reserve | Operation | Turn;

/** The range of a position that is read from a tensor. */
export const UNKNOWN: Range = [-1, 0];

interface LoopStep extends Step {
  kind: "loop"; axis: string; var: string; tile: number; span: Place; step: number; body: Todo[];
  marks: { name: string; rows: number } | null;
}
interface TransferStep extends Step { kind: "load" | "store"; buffer: string; tensor: string; index: Ranger[] }
interface AllocStep extends Step { kind: "alloc"; buffer: string; index: Ranger[] }
interface FreeStep extends Step { kind: "free"; buffer: string }
type Todo = LoopStep | TransferStep | AllocStep | FreeStep | Operation;
type Ranger = (values: Values) => Range;

function compile(program: ProgramData): { names: Names; body: Todo[] } {
  const names = new Names();
  const lines = new Map(program.listing.map((line, k) => [line.path.join(), k]));
  const indices = (index: Index[]): Ranger[] => unstacked(index).map((x) => ranger(names, x));
  const todo = (node: Node, path: number[]): Todo => {
    const line = lines.get(path.join()) ?? -1;
    switch (node.type) {
      case "Loop":
        return {
          kind: "loop", line, axis: node.tile.axis, var: node.tile.var, tile: names.tile(node.tile),
          span: names.place(node.span), step: node.step === null ? -1 : names.size(node.step),
          marks: node.marks ? { name: node.marks.name, rows: names.tile(node.marks.rows) + 2 } : null,
          body: node.body.map((x, k) => todo(x, [...path, k])),
        };
      case "Load":
      case "Store":
        return {
          kind: node.type === "Load" ? "load" : "store", line,
          buffer: node.buffer, tensor: node.tensor, index: indices(node.index),
        };
      case "Alloc":
        return { kind: "alloc", line, buffer: node.buffer, index: indices(node.index) };
      case "Free":
        return { kind: "free", line, buffer: node.buffer };
      case "Op":
        return {
          kind: "op", line, name: node.name,
          operands: node.operands.map((x) => (x.part ? `${x.buffer}[${x.part.var}]` : x.buffer)),
        };
    }
  };
  return { names, body: program.tree.body.map((x, k) => todo(x, [k])) };
}

function ranger(names: Names, x: Plain): Ranger {
  switch (x.type) {
    case "Span": {
      const place = names.place(x);
      return (values) => resolved(place, values);
    }
    case "Tile": {
      const tile = names.tile(x);
      return (values) => [values[tile]!, values[tile + 1]!];
    }
    case "Number": {
      const number = names.tile(x.tile) + 2;
      return (values) => [values[number]!, values[number]! + 1];
    }
    case "Within": {
      const tile = names.tile(x.tile);
      return (values) => [0, values[tile + 1]! - values[tile]!];
    }
    case "At":
      return () => [...UNKNOWN];
  }
}

/** A block that is running: its next node, and its loop's next iteration. */
interface Frame { body: Todo[]; next: number; loop: LoopStep | null; at: number; stop: number; by: number; number: number }

/**
 * Every event of an instance, lazily.  A load reserves its buffer, and a free gives back as many
 * words as the buffer got.
 */
export function* walk({ program, env, masks }: Instance): Generator<Event, void, undefined> {
  const { names, body } = once(program, compile);
  const values = names.values(env);
  const held = new Map<string, number>();
  const frames: Frame[] = [{ body, next: 0, loop: null, at: 0, stop: 0, by: 1, number: -1 }];
  for (let frame = frames[0]; frame !== undefined; frame = frames[frames.length - 1]) {
    if (frame.next === frame.body.length) {
      const turn = nextTurn(frame, values, masks, frames.length - 2);
      if (turn === null) frames.pop();
      else yield turn;
      continue;
    }
    const todo = frame.body[frame.next++]!;
    switch (todo.kind) {
      case "loop": {
        const [at, stop] = resolved(todo.span, values);
        const by = todo.step < 0 ? 1 : values[todo.step]!;
        frames.push({ body: todo.body, next: todo.body.length, loop: todo, at, stop, by, number: -1 });
        break;
      }
      case "load":
      case "store": {
        const { kind, line, buffer, tensor } = todo;
        const ranges = todo.index.map((x) => x(values));
        const words = wordsOf(ranges);
        if (kind === "load") held.set(buffer, words);
        yield { kind, line, buffer, tensor, ranges, words };
        break;
      }
      case "alloc": {
        const words = wordsOf(todo.index.map((x) => x(values)));
        held.set(todo.buffer, words);
        yield { kind: "alloc", line: todo.line, buffer: todo.buffer, words };
        break;
      }
      case "free":
        yield { kind: "free", line: todo.line, buffer: todo.buffer, words: held.get(todo.buffer) ?? 0 };
        held.delete(todo.buffer);
        break;
      case "op":
        yield todo;
    }
  }
}

function wordsOf(ranges: Range[]): number {
  let words = 1;
  for (const [start, stop] of ranges) words *= stop - start;
  return words;
}

/** Opens the next iteration of a frame's loop that runs; null after the last one. */
function nextTurn(frame: Frame, values: Values, masks: Instance["masks"], depth: number): Turn | null {
  const { loop } = frame;
  while (loop !== null && frame.at < frame.stop) {
    const start = frame.at;
    frame.at += frame.by;
    frame.number += 1;
    if (loop.marks && !masks[loop.marks.name]![values[loop.marks.rows]!]![frame.number]) continue;
    const stop = Math.min(frame.at, frame.stop);
    values[loop.tile] = start;
    values[loop.tile + 1] = stop;
    values[loop.tile + 2] = frame.number;
    frame.next = 0;
    return { kind: "turn", line: loop.line, axis: loop.axis, var: loop.var, start, stop, depth };
  }
  return null;
}
