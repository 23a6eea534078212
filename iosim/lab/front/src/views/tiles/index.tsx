// Words over the plane of two tiles, with the edge of what fits in M, and why a rule is as it is.
import { useMemo } from "preact/hooks";
import { smallest, type Env, type Searchable } from "../../engine";
import type { Params, View, ViewProps } from "../../types";
import { Button, NumberField, parseWhole, say, Select, Size, Table } from "../../ui";
import { COLORS } from "./colors";
import type { PlaneData, TilesData } from "./data";
import { edgeOf, extentOf, gridOf, marksOf, pointOf, sectionsOf, type Grid, type Point, type Setting } from "./model";
import { heldOf } from "./held";
import { PlanePlot, Sign } from "./plot";
import { SectionPlot, whichMatters } from "./sections";
import "./tiles.css";
import { Why } from "./why";

const LEAST_M = 1, MOST_M = 2 ** 24;
const FIRST = 32; // both tiles at first

function Tiles({ data, lab, params, setParams }: ViewProps<TilesData>) {
  const plane = data.planes.find((p) => p.schedule === params.schedule) ?? data.planes[0]!;
  const program = lab.programs[plane.schedule] as Searchable | undefined;
  if (!program) throw new Error(`the data has no program ${plane.schedule}; write it again with iosim lab`);
  const sizes = useMemo(() => sizesOf(data, plane, params), [data, plane, ...plane.sizes.map((s) => params[s.name])]);
  const M = given(params.M, LEAST_M, MOST_M) ?? data.M;
  const typed = plane.held.map((name) => params[name]);
  const held = useMemo(() => heldOf(program, plane, sizes, M, params), [program, plane, sizes, M, ...typed]);
  // What the grid depends on: M only moves the edge and the marks.
  const still = JSON.stringify([plane.schedule, sizes, held]);
  const grid = useMemo(() => gridOf({ program, plane, sizes, M, held }), [still]);
  const setting = useMemo(() => ({ program, plane, sizes, M, held }), [still, M]);
  const edge = useMemo(() => edgeOf(setting), [setting]);
  const marks = useMemo(() => marksOf(data, setting, grid), [setting, grid]);
  const tiles = tilesOf(setting, params);
  const { x, y } = plane;
  const you = useMemo(() => pointOf(setting, "your tiles", "you", tiles), [setting, tiles[x], tiles[y]]);
  const sections = useMemo(() => sectionsOf(setting, grid, tiles), [setting, grid, tiles[x], tiles[y]]);
  const least = useMemo(() => smallest(program, sizes), [program, sizes]);
  const optimum = marks.find((mark) => mark.sign === "optimum");
  const told = sentence(you, optimum, x, y, M);
  const matters = whichMatters(sections);
  const move = (a: number, b: number) => setParams({ [x]: String(a), [y]: String(b) });
  return (
    <div class="tiles">
      <div class="controls">
        <Select
          label="Schedule"
          value={plane.schedule}
          options={data.planes.map((p) => p.schedule)}
          onChange={(schedule) => setParams({ schedule })}
        />
        {plane.sizes.map(({ name, says }) => (
          <NumberField
            key={`${plane.schedule} ${name}`} label={name} hint={says} value={sizes[name]!} max={data.largest}
            onChange={(value) => setParams({ [name]: String(value) })}
          />
        ))}
        <Size
          label="M" hint="words" value={M} min={LEAST_M} max={MOST_M} log
          wrong={M < least ? `no tiles fit in ${say(M)} words: the least M that works is ${say(least)}` : undefined}
          onChange={(value) => setParams({ M: String(value) })}
        />
        {plane.held.map((name) => (
          <NumberField
            key={`${plane.schedule} ${name}`} label={name} hint={params[name] === undefined ? "as in the optimum" : "held"} value={held[name]!}
            min={program.tree.params.find((p) => p.name === name)!.least} max={extentOf(program, name, sizes)}
            onChange={(value) => setParams({ [name]: String(value) })}
          />
        ))}
        <span class="hint">{plane.title}</span>
      </div>
      <div class="tiles-split">
        <div>
          <PlanePlot
            x={x} y={y} wide={extentOf(program, x, sizes)} high={extentOf(program, y, sizes)}
            grid={grid} edge={edge} marks={marks} you={you} told={told} onMove={move}
          />
          <ColorBar grid={grid} />
        </div>
        <div>
          <div class="controls">
            {[x, y].map((name) => (
              <Size
                key={`${plane.schedule} ${name}`} label={name} value={tiles[name]!} min={1} max={extentOf(program, name, sizes)} log
                onChange={(value) => setParams({ [name]: String(value) })}
              />
            ))}
          </div>
          <p class="tiles-told" role="status">{told}</p>
          <Points points={[you, ...marks]} x={x} y={y} optimum={optimum} onMove={move} />
          <div class="tiles-sections">
            {sections.map((section) => <SectionPlot key={section.tile} section={section} grid={grid} words={Number(you.words)} />)}
          </div>
          {!plane.rule && <p>{matters}</p>}
        </div>
      </div>
      {plane.rule && <Why data={data} setting={setting} optimum={optimum} matters={matters} />}
    </div>
  );
}

const given = (text: string | undefined, min: number, max: number): number | undefined => {
  const found = parseWhole(text ?? "");
  return found !== undefined && found >= min && found <= max ? found : undefined;
};

const sizesOf = (data: TilesData, plane: PlaneData, params: Params): Env =>
  Object.fromEntries(plane.sizes.map(({ name, value }) => [name, given(params[name], 1, data.largest) ?? value]));

// What the link says, no longer than the axis.
function tilesOf({ program, plane: { x, y }, sizes }: Setting, params: Params): Env {
  return Object.fromEntries([x, y].map((name) => {
    const most = extentOf(program, name, sizes);
    return [name, Math.min(given(params[name], 1, 2 ** 40) ?? FIRST, most)];
  }));
}

function sentence(you: Point, optimum: Point | undefined, x: string, y: string, M: number): string {
  const at = `${x} = ${say(you.tiles[x]!)}, ${y} = ${say(you.tiles[y]!)}: ${say(you.words)} words`;
  const fit = you.fits ? `hold ${say(you.peak)} of ${say(M)}` : `hold ${say(you.peak)}, more than ${say(M)}, and do not fit`;
  const far = optimum ? `, ${(Number(you.words) / Number(optimum.words)).toFixed(3)} × the optimum` : "";
  return `${at}${far}. They ${fit}.`;
}

interface PointsProps { points: readonly Point[]; x: string; y: string; optimum: Point | undefined; onMove: (x: number, y: number) => void }

function Points({ points, x, y, optimum, onMove }: PointsProps) {
  return (
    <div class="tiles-points">
      <Table
        caption="Words and peaks, exact"
        columns={["tiles", x, y, "words", "÷ optimum", "peak", "fits"]}
        rows={points.map((p) => [
          <>
            <svg width={22} height={22} viewBox="-11 -11 22 22" aria-hidden="true"><Sign sign={p.sign} x={0} y={0} /></svg>{" "}
            {p.sign === "you" ? p.what : (
              <Button label={`Move to ${p.what}, ${x} = ${say(p.tiles[x]!)}, ${y} = ${say(p.tiles[y]!)}`} onClick={() => onMove(p.tiles[x]!, p.tiles[y]!)}>{p.what}</Button>
            )}
          </>,
          p.tiles[x]!, p.tiles[y]!, p.words,
          optimum ? (Number(p.words) / Number(optimum.words)).toFixed(3) : "",
          p.peak, p.fits ? "yes" : "no",
        ])}
      />
    </div>
  );
}

function ColorBar({ grid }: { grid: Grid }) {
  const stops = [0, 51, 102, 153, 204, 255].map((k) => COLORS[k]!).join(", ");
  return (
    <div class="tiles-bar">
      <span>{say(grid.low)} words</span>
      <div style={{ background: `linear-gradient(to right, ${stops})` }} aria-hidden="true" />
      <span>{say(grid.high)}</span>
    </div>
  );
}

export const view: View<TilesData> = {
  id: "tiles",
  title: "Tiles",
  says: "Words over the plane of two tile sizes: which tile matters, and why a published rule is as it is.",
  Component: Tiles,
  keys: [
    ["← →, ↑ ↓", "one more or one less of a tile"],
    ["Shift with an arrow", "twice or half of it"],
  ],
};
