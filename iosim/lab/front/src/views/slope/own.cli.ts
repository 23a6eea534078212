// Columns of tables that links make over JSON, for tests: words, tiles and bounds at an M, and what is lacking.
import { readGiven } from "../../forms/given";
import { unpack } from "../../forms/family";
import type { LabData, Params } from "../../types";
import type { SlopeData } from "./data";
import { Own } from "./own";
import { familyOf, problemOf } from "./problem";

declare const process: { stdin: AsyncIterable<Uint8Array>; stdout: { write(text: string): void } };

const decoder = new TextDecoder();
let text = "";
for await (const part of process.stdin) text += decoder.decode(part, { stream: true });
const [lab, ...links] = JSON.parse(text) as [LabData, ...{ params: Params; M: number }[]];
const data = lab.views.slope as SlopeData;
const family = familyOf(data, lab);
const packed = await unpack(family.packed);

function column(params: Params, M: number): unknown {
  const wrong: string[] = [];
  const problem = problemOf(data, family, packed, lab, readGiven(family, {}, params, wrong));
  if ("message" in problem) return { wrong, ...problem };
  const own = new Own(data, problem);
  own.add(M);
  while (own.pending(M).length) own.work(10);
  const readings = Object.entries(own.readings(M)).map(([name, x]) =>
    [name, x ? { words: String(x.words), peak: String(x.peak), tiles: x.tiles } : null]);
  const { least, lacks, bounds } = own.preset().own!;
  return { wrong, readings: Object.fromEntries(readings), least, lacks, bounds: bounds(M) };
}

process.stdout.write(JSON.stringify([null, ...links.map(({ params, M }) => column(params, M))]));
