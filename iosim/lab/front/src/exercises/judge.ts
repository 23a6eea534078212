/** Whether an answer is right, and what to say of it.  What is right comes with the exercise, or from the engine. */

import { best, bind, count, peak, searchable, total, type Env, type ProgramData } from "../engine";
import { fraction, less, minus, over, parseFraction, same, say, sayBeside, times, type Fraction } from "./fraction";
import { evaluate, parse, written, type Values } from "./formula";
import type { ChoiceExercise, Exercise, FormulaExercise, NumberExercise, TilesExercise, Verdict } from "./types";

export type Programs = Record<string, ProgramData>;

const POINTS = 250;

const valuesOf = (of: Exercise): Values =>
  Object.fromEntries(Object.entries(of.values).map(([name, x]) => [name, parseFraction(x)]));

/** The number that an exercise asks for. */
export function numberOf(of: NumberExercise): Fraction {
  const values = valuesOf(of);
  return evaluate(parse(of.answer, Object.keys(values)), values);
}

const unitOf = (of: Exercise): string => (of.unit ? ` ${of.unit}` : "");

export function judgeNumber(of: NumberExercise, typed: string): Verdict {
  const given = evaluate(parse(typed, []), {});
  const right = numberOf(of);
  const off = minus(given, right);
  const room = times(fraction(BigInt(Math.round(of.tolerance * 1e6)), 10n ** 6n), absolute(right));
  if (!less(room, absolute(off))) {
    return { right: true, says: same(given, right) ? "Right." : `Right: it is ${say(right)}${unitOf(of)}.` };
  }
  return { right: false, says: `${sayBeside(given, right)}${unitOf(of)} is too ${less(given, right) ? "small" : "large"}.` };
}

const absolute = (x: Fraction): Fraction => (x.n < 0n ? { n: -x.n, d: x.d } : x);

export function judgeFormula(of: FormulaExercise, typed: string, programs: Programs): Verdict {
  const given = parse(typed, Object.keys(of.names));
  const values = valuesOf(of);
  const answer = parse(of.answer, [...Object.keys(of.names), ...Object.keys(values)]);
  const counted = counter(of, programs);
  const tried = points(of, programs).map((at) => {
    const env = { ...values, ...Object.fromEntries(Object.entries(at).map(([k, x]) => [k, fraction(x)])) };
    const is = evaluate(answer, env);
    const engine = counted?.(at);
    if (engine !== undefined && !same(engine, is)) throw new Error(`the exercise says ${say(is)} and the engine counts ${say(engine)}`);
    return { at, is, given: evaluate(given, env) };
  });
  const wrong = tried.find((x) => !same(x.given, x.is));
  if (!wrong) return { right: true, says: `Right: ${written(given)}.` };
  const where = Object.entries(wrong.at).map(([k, x]) => `${k} = ${x.toLocaleString("en-US")}`).join(", ");
  const says = `Read as ${written(given)}. At ${where} that is ${sayBeside(wrong.given, wrong.is)}, and it should be ${say(wrong.is)}.`;
  return { right: false, says: [says, clue(of, programs, tried)].filter(Boolean).join(" ") };
}

interface Tried { at: Env; is: Fraction; given: Fraction }

/** What is common to the points where a formula is wrong. */
function clue(of: FormulaExercise, programs: Programs, tried: Tried[]): string {
  const axes = axesOf(of, programs);
  const even = (x: Tried): boolean => Object.entries(axes).every(([tile, axis]) => (x.at[axis] ?? 0) % x.at[tile]! === 0);
  const [divide, others] = [tried.filter(even), tried.filter((x) => !even(x))];
  const right = (x: Tried): boolean => same(x.given, x.is);
  if (divide.length > 3 && divide.every(right) && !others.every(right)) {
    return "It is right where every tile divides its axis: think of the last, short tile.";
  }
  const shares = tried.filter((x) => x.is.n !== 0n).map((x) => over(x.given, x.is));
  if (shares.length && shares.every((x) => same(x, shares[0]!)) && shares[0]!.n !== 0n) {
    return `It is ${sayBeside(shares[0]!, fraction(1))} times as much everywhere.`;
  }
  return "";
}

/** Tile → its axis, of the tiles that the count's program has. */
function axesOf(of: FormulaExercise, programs: Programs): Record<string, string> {
  const program = of.count && programs[of.count.program];
  return Object.fromEntries((program?.tree.params ?? []).map((p) => [p.name, p.axis]));
}

/** What the closed form that traveled says at a point. */
function counter(of: FormulaExercise, programs: Programs): ((at: Env) => Fraction) | undefined {
  const program = of.count && programs[of.count.program];
  if (!of.count || !program) return undefined;
  const { key, fixed } = of.count;
  const tiles = program.tree.params.map((p) => p.name);
  return (at) => {
    const every = { ...fixed, ...at };
    const pick = (names: string[]): Env => Object.fromEntries(names.map((x) => [x, every[x]!]));
    const instance = bind(program, pick(program.sizes), pick(tiles));
    return fraction(key === "peak" ? peak(instance) : key === "total" ? total(instance) : count(instance)[key]!);
  };
}

/** Sizes and tiles of at most their axes, smaller ones first; the same ones every time. */
function points(of: FormulaExercise, programs: Programs): Env[] {
  const random = generator(1);
  const whole = (most: number): number => 1 + Math.floor(random() * most);
  const axes = axesOf(of, programs);
  const found = Array.from({ length: POINTS }, () => {
    const most = 2 ** whole(12);
    const at: Env = {};
    for (const name of Object.keys(of.names)) if (!(name in axes)) at[name] = whole(most);
    for (const name of Object.keys(of.names)) {
      const extent = name in axes ? { ...of.count?.fixed, ...at }[axes[name]!] : undefined;
      if (extent !== undefined) at[name] = random() < 0.3 ? divisor(extent, whole(extent)) : whole(extent);
    }
    return Object.fromEntries(Object.keys(of.names).map((x) => [x, at[x]!]));
  });
  const size = (at: Env): number => Math.max(...Object.values(at));
  return found.sort((a, b) => size(a) - size(b));
}

/** The largest divisor of a number that is at most another. */
function divisor(of: number, most: number): number {
  let found = most;
  while (of % found) found -= 1;
  return found;
}

/** Mulberry32: numbers in 0 … 1 from a seed. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let x = Math.imul(state ^ (state >>> 15), 1 | state);
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function judgeChoice(of: ChoiceExercise, chosen: string): Verdict {
  return chosen === of.answer ? { right: true, says: `Right: ${chosen}.` } : { right: false, says: `Not ${chosen}.` };
}

/** Words of every choice, where choices are schedules; null where none of its tiles fit. */
export function wordsOf(of: ChoiceExercise, programs: Programs): [string, bigint | null][] {
  const { least } = of;
  if (!least) return [];
  return of.choices.map((name) => {
    const program = programs[name];
    if (!program || !searchable(program)) return [name, null];
    const found = best(program, least.sizes[name]!, least.M);
    return [name, "smallest" in found ? null : found.words];
  });
}

/** Tiles that were typed, judged by what they hold and move; InputError for what can't be bound. */
export function judgeTiles({ fit }: TilesExercise, tiles: Env, programs: Programs): Verdict {
  const program = programs[fit.program]!;
  const instance = bind(program, fit.sizes, tiles);
  const [held, moved] = [peak(instance), total(instance)];
  const say = (x: bigint | number): string => x.toLocaleString("en-US");
  if (held > BigInt(fit.M)) return { right: false, says: `They hold ${say(held)} words, and M is ${say(fit.M)}.` };
  const fits = `They hold ${say(held)} of ${say(fit.M)} words, and move ${say(moved)}`;
  if (!fit.best) return { right: true, says: `Right. ${fits}.` };
  const fewest = total(bind(program, fit.sizes, fit.tiles));
  return moved === fewest
    ? { right: true, says: `Right. ${fits}: no tiles that fit move fewer.` }
    : { right: false, says: `They fit. ${fits}: there are tiles that move fewer.` };
}

/** The answer, as it is shown when it is revealed. */
export function answerOf(of: Exercise): string {
  switch (of.ask) {
    case "number": return `${say(numberOf(of))}${unitOf(of)}`;
    case "formula": return `${written(parse(of.answer, [...Object.keys(of.names), ...Object.keys(of.values)]))}${unitOf(of)}`;
    case "choice": return of.answer;
    case "tiles": return Object.entries(of.fit.tiles).map(([name, x]) => `${name} = ${x.toLocaleString("en-US")}`).join(", ");
  }
}
