// The tiles that links show over JSON, for tests: what is shown at once, and what in the end.
import { ended } from "../../engine";
import type { LabData, Params } from "../../types";
import { unpack } from "../../forms/family";
import type { WatchData } from "./data";
import { isWrong, read, World, type Side, type Tried } from "./setup";

declare const process: { stdin: AsyncIterable<Uint8Array>; stdout: { write(text: string): void } };

interface Link { params: Params; atOnce: number }

const told = ({ tiles, how, smallest, M, peak, search }: Side) => ({ tiles, how, smallest, fits: peak <= M, ended: search === null });
const said = (x: Tried) => (isWrong(x) ? x.wrong : told(x.side));

const decoder = new TextDecoder();
let text = "";
for await (const part of process.stdin) text += decoder.decode(part, { stream: true });
const [lab, ...links] = JSON.parse(text) as [LabData, ...Link[]];
const data = lab.views.watch as WatchData;
const packed = await unpack(data.packed);

async function shown({ params, atOnce }: Link): Promise<unknown> {
  const world = new World(data, lab, packed, atOnce);
  const { choice, algorithm, own } = read(data, params);
  const side = (): Tried => world.side(world.schedule(algorithm)!, choice, own[0]);
  const first = side();
  if (!isWrong(first) && first.side.search) {
    world.learn(first.side.schedule, choice, (await ended(first.side.search, () => true))!);
  }
  return { first: said(first), last: said(side()) };
}

const answers: unknown[] = [null];
for (const link of links) answers.push(await shown(link));
process.stdout.write(JSON.stringify(answers));
