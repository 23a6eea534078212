/**
 * Formulas as people type them: 2Nd⌈N/B_r⌉, M/4d (which is M/(4·d)), N² − min(d, B), 64Ki.
 * Products need no sign, and bind tighter than divisions then.
 */

import { ceil, floor, fraction, less, minus, over, parseFraction, plus, power, same, times, type Fraction } from "./fraction";

/** A text that is not a formula, or has no value; the message says why. */
export class Unreadable extends Error {}

type Sign = "+" | "-" | "*" | "/" | "^";
type Call = "ceil" | "floor" | "min" | "max";
export type Expression =
  | { kind: "number"; value: Fraction }
  | { kind: "name"; name: string }
  | { kind: "minus"; of: Expression }
  | { kind: "pair"; sign: Sign; left: Expression; right: Expression }
  | { kind: "call"; name: Call; args: Expression[] };

type Token = { kind: "number"; value: Fraction } | { kind: "name"; name: string } | { kind: "call"; name: Call } | { kind: "sign"; text: string };

const CALLS: readonly string[] = ["ceil", "floor", "min", "max"];
const SIGNS: Record<string, string> = {
  "×": "*", "·": "*", "∙": "*", "⋅": "*", "∗": "*", "•": "*", "−": "-", "–": "-", "÷": "/", "[": "(", "]": ")",
};
const UNITS: Record<string, bigint> = { Ki: 2n ** 10n, Mi: 2n ** 20n, Gi: 2n ** 30n };
const CLOSES: Record<string, [string, Call]> = { "⌈": ["⌉", "ceil"], "⌊": ["⌋", "floor"] };
const MOST_POWER = 16;
const MOST_SIGNS = 300; // of a formula
const MOST_BITS = 4096; // of a number on the way

/** Names with the other ways to write them: B_r is Br, too. */
function spellings(names: readonly string[]): [string, string][] {
  const all = names.map((name): [string, string] => [name, name]);
  for (const name of names) {
    const [, first, rest] = /^([A-Za-z]+)_(\w+)$/.exec(name) ?? [];
    if (first !== undefined) all.push([`${first}${rest}`, name], [`${first}_{${rest}}`, name]);
  }
  return all.sort((a, b) => b[0].length - a[0].length);
}

function tokens(text: string, names: readonly string[]): Token[] {
  const known = spellings(names);
  const found: Token[] = [];
  const open: boolean[] = []; // brackets: whether they are those of a call, where a comma separates numbers
  for (let at = 0; at < text.length;) {
    const rest = text.slice(at);
    const space = /^\s+/.exec(rest);
    if (space) {
      at += space[0].length;
      continue;
    }
    const number = (open.includes(true) ? /^\d+(\.\d+)?/ : /^(\d{1,3}(,\d{3})+(?![\d,])|\d+)(\.\d+)?/).exec(rest);
    if (number) {
      const tens = /^[eE]([+-]?\d{1,2})(?!\w)/.exec(rest.slice(number[0].length));
      const unit = /^(Ki|Mi|Gi)/.exec(rest.slice(number[0].length))?.[0] ?? "";
      const factor = tens ? power(fraction(10), Number(tens[1])) : fraction(unit ? UNITS[unit]! : 1);
      found.push({ kind: "number", value: times(parseFraction(number[0].replaceAll(",", "")), factor) });
      at += number[0].length + (tens?.[0] ?? unit).length;
      continue;
    }
    const call = /^(ceiling|ceil|floor|min|max)(?=\s*[([])/.exec(rest);
    const spelled = call ? undefined : known.find(([way]) => rest.startsWith(way));
    if (call) found.push({ kind: "call", name: call[0].replace("ceiling", "ceil") as Call });
    else if (spelled) found.push({ kind: "name", name: spelled[1] });
    if (call || spelled) {
      at += (call ?? spelled)![0].length;
      continue;
    }
    if (rest.startsWith("**")) {
      found.push({ kind: "sign", text: "^" });
      at += 2;
      continue;
    }
    const sign = SIGNS[rest[0]!] ?? rest[0]!;
    if (!"+-*/^()⌈⌉⌊⌋,²³".includes(sign)) throw new Unreadable(unknown(rest, names));
    const last = found[found.length - 1];
    if ("(⌈⌊".includes(sign)) open.push(sign === "(" && last?.kind === "call");
    if (")⌉⌋".includes(sign)) open.pop();
    found.push({ kind: "sign", text: sign });
    at += 1;
  }
  return found;
}

function unknown(rest: string, names: readonly string[]): string {
  const word = /^[A-Za-z_]\w*/.exec(rest)?.[0];
  if (rest[0] === "=") return "type only the part after “=”";
  if (!word) return `“${[...rest][0]}” is not a sign here: use + − × / ^ ( ) ⌈ ⌉ ⌊ ⌋`;
  if (CALLS.includes(word)) return `put the argument of “${word}” in parentheses: ${word}(…)`;
  return `“${word}” is not a name here: use ${[...names, ...CALLS.map((x) => `${x}()`)].join(", ")}`;
}

/** Reads a text; names are those that it may use. */
export function parse(text: string, names: readonly string[]): Expression {
  if (text.length > MOST_SIGNS) throw new Unreadable(`that is ${text.length.toLocaleString("en-US")} characters long: write at most ${MOST_SIGNS}`);
  const list = tokens(text.replace(/^\s*=/, ""), names);
  let at = 0;
  const sign = (): string | undefined => {
    const token = list[at];
    return token?.kind === "sign" ? token.text : undefined;
  };
  const take = (...signs: string[]): string | undefined => {
    const here = sign();
    if (here === undefined || !signs.includes(here)) return undefined;
    at += 1;
    return here;
  };
  const expect = (close: string): void => {
    if (!take(close)) throw new Unreadable(at < list.length ? `“${close}” is missing before ${said(list[at]!)}` : `“${close}” is missing at the end`);
  };
  const sum = (): Expression => {
    let left = product();
    for (let s = take("+", "-"); s; s = take("+", "-")) left = { kind: "pair", sign: s as Sign, left, right: product() };
    return left;
  };
  const product = (): Expression => {
    let left = joined();
    for (let s = take("*", "/"); s; s = take("*", "/")) left = { kind: "pair", sign: s as Sign, left, right: joined() };
    return left;
  };
  // Factors side by side.
  const joined = (): Expression => {
    let left = raised();
    for (let next = list[at]; next && (next.kind === "name" || next.kind === "call" || "(⌈⌊".includes(sign() ?? "x")); next = list[at]) {
      left = { kind: "pair", sign: "*", left, right: raised() };
    }
    if (list[at]?.kind === "number") throw new Unreadable(`put a sign before ${said(list[at]!)}`);
    return left;
  };
  const raised = (): Expression => {
    if (take("-")) return { kind: "minus", of: raised() };
    if (take("+")) return raised();
    const base = atom();
    const square = take("²", "³");
    const left: Expression = square ? raisedTo(base, { kind: "number", value: fraction(square === "²" ? 2 : 3) }) : base;
    if (square && ["^", "²", "³"].includes(sign() ?? "")) throw new Unreadable(`put parentheses around a power that is raised again`);
    // As in print, the upper one of two powers comes first.
    return take("^") ? raisedTo(left, raised()) : left;
  };
  const atom = (): Expression => {
    const token = list[at++];
    if (token === undefined) throw new Unreadable(list.length ? "something is missing at the end" : names.length ? "type a formula" : "type a number");
    if (token.kind === "number" || token.kind === "name") return token;
    if (token.kind === "call") return called(token.name);
    if (token.text === "(") {
      const inner = sum();
      expect(")");
      return inner;
    }
    const closes = CLOSES[token.text];
    if (!closes) throw new Unreadable(`${said(token)} is where a number or a name belongs`);
    const inner = sum();
    expect(closes[0]);
    return { kind: "call", name: closes[1], args: [inner] };
  };
  const called = (name: Call): Expression => {
    expect("(");
    const args = [sum()];
    while (take(",")) args.push(sum());
    expect(")");
    if (args.length !== 1 && (name === "ceil" || name === "floor")) throw new Unreadable(`${name}() takes one number`);
    return { kind: "call", name, args };
  };
  const found = sum();
  if (at < list.length) throw new Unreadable(`${said(list[at]!)} is not understood there`);
  return found;
}

const raisedTo = (left: Expression, right: Expression): Expression => ({ kind: "pair", sign: "^", left, right });

function said(token: Token): string {
  return `“${token.kind === "number" ? written(token) : token.kind === "sign" ? token.text : token.name}”`;
}

export type Values = Readonly<Record<string, Fraction>>;

/** The exact value of a formula; Unreadable where it has none. */
export function evaluate(of: Expression, values: Values): Fraction {
  switch (of.kind) {
    case "number": return of.value;
    case "name": return values[of.name]!;
    case "minus": return minus(fraction(0), evaluate(of.of, values));
    case "pair": return pair(of.sign, evaluate(of.left, values), evaluate(of.right, values));
    case "call": {
      const args = of.args.map((x) => evaluate(x, values));
      if (of.name === "ceil" || of.name === "floor") return (of.name === "ceil" ? ceil : floor)(args[0]!);
      return args.reduce((a, b) => (less(b, a) === (of.name === "min") ? b : a));
    }
  }
}

function pair(sign: Sign, a: Fraction, b: Fraction): Fraction {
  if (sign === "/" && b.n === 0n) throw new Unreadable("it divides by 0");
  switch (sign) {
    case "+": return plus(a, b);
    case "-": return minus(a, b);
    case "*": return times(a, b);
    case "/": return over(a, b);
    case "^": {
      if (b.d !== 1n || b.n > MOST_POWER || b.n < -MOST_POWER) throw new Unreadable(`powers are whole numbers up to ${MOST_POWER}`);
      if (a.n === 0n && b.n < 0n) throw new Unreadable("it divides by 0");
      if (bits(a) * Math.abs(Number(b.n)) > MOST_BITS) throw new Unreadable("a power in it is too large a number");
      return power(a, Number(b.n));
    }
  }
}

const bits = (x: Fraction): number => Math.max((x.n < 0n ? -x.n : x.n).toString(2).length, x.d.toString(2).length);

const BINDS: Record<Sign, number> = { "+": 1, "-": 1, "*": 2, "/": 2, "^": 4 };
const SHOWN: Record<Sign, string> = { "+": " + ", "-": " − ", "*": "·", "/": "/", "^": "^" };

/** How a formula was read, every bracket that matters in its place. */
export function written(of: Expression, outer = 0): string {
  const inside = (text: string, binds: number): string => (binds < outer ? `(${text})` : text);
  switch (of.kind) {
    case "number": return of.value.d === 1n ? of.value.n.toLocaleString("en-US") : String(Number(of.value.n) / Number(of.value.d));
    case "name": return of.name;
    case "minus": return inside(`−${written(of.of, 3)}`, 1);
    case "pair": {
      const binds = BINDS[of.sign];
      if (of.sign === "^" && of.right.kind === "number" && same(of.right.value, fraction(2))) return inside(`${written(of.left, 5)}²`, 4);
      const right = of.sign === "-" || of.sign === "/" || of.sign === "^" ? binds + 1 : binds;
      return inside(`${written(of.left, of.sign === "^" ? 5 : binds)}${SHOWN[of.sign]}${written(of.right, right)}`, binds);
    }
    case "call":
      if (of.name === "ceil") return `⌈${written(of.args[0]!)}⌉`;
      if (of.name === "floor") return `⌊${written(of.args[0]!)}⌋`;
      return `${of.name}(${of.args.map((x) => written(x)).join(", ")})`;
  }
}
