// The red-blue pebble game, played: on the project's small graphs, and on graphs drawn by hand.
import { useMemo, useState } from "preact/hooks";
import type { View, ViewProps } from "../../types";
import { Button, NumberField, Select } from "../../ui";
import { graphOfBoard, known, type PebblesData } from "./data";
import { type Drawing, fromText, graphFrom, layout, Refused, toText } from "./drawing";
import { Own } from "./own";
import "./pebbles.css";
import { Play } from "./play";
import { compulsory, leastMemory, type Rules } from "./rules";

const OWN = "own";
const FIRST = "a c\nb c\nb d\nc e\nd e\nd f";

function Pebbles(props: ViewProps<PebblesData>) {
  const { boards, graphs, games } = props.data;
  if (boards?.length && graphs?.length && games?.length) return <Chosen {...props} />;
  return <p class="broken" role="alert">The data of the pebble game has no boards. Write the page again with <code>iosim lab</code>.</p>;
}

function Chosen({ data, params, setParams }: ViewProps<PebblesData>) {
  const graphId = params.graph === OWN || data.graphs.some((x) => x.id === params.graph) ? params.graph! : data.graphs[0]!.id;
  const [drawing, setDrawing] = useState(() => drawingOf(params.edges));
  const [drawn, setDrawn] = useState(params.edges === undefined);
  const own = graphId === OWN;
  const games = own ? ["chain", "recompute"] : data.boards.filter((b) => b.graph === graphId).map((b) => b.game);
  const gameId = games.includes(params.game ?? "") ? params.game! : games[0]!;
  const game = data.games.find((x) => x.id === gameId)!;
  const board = data.boards.find((b) => b.graph === graphId && b.game === gameId);
  const graph = useMemo(() => (board ? graphOfBoard(board) : graphFrom(drawing)), [board, drawing]);
  const places = useMemo(() => layout(graph), [graph]);
  const partial = board?.partial ?? false;
  const least = graph.vertices.length ? leastMemory(graph, partial) : 2;
  const most = Math.max(least, 64);
  const M = whole(params.M, least, most) ?? board?.optima[0]?.M ?? least;
  const s = whole(params.s, 1, 2 * M) ?? M;
  const rules: Rules = useMemo(
    () => ({ M, recompute: gameId === "recompute", partial }),
    [M, gameId, partial],
  );
  const onS = (next: number) => setParams({ s: next === M ? undefined : String(next) });

  return (
    <div class="pebbles">
      <div class="controls">
        <Select
          label="Graph" value={graphId}
          options={[...data.graphs.map((x) => ({ value: x.id, label: x.title })), { value: OWN, label: "Your own, drawn by hand" }]}
          onChange={(next) => setParams({ graph: next, M: undefined, s: undefined })}
        />
        <Select
          label="Game" value={gameId}
          options={games.map((id) => ({ value: id, label: data.games.find((x) => x.id === id)!.title }))}
          onChange={(next) => setParams({ game: next, M: undefined, s: undefined })}
        />
        <NumberField
          key={`${graphId} ${gameId}`} label="Red pebbles, M" value={M} min={2} max={most}
          check={(x) => (x < least ? `M = ${x} is too small: a vertex with its operands needs M ≥ ${least}` : undefined)}
          onChange={(next) => setParams({ M: String(next), s: undefined })}
        />
        {board && (
          <div class="buttons" role="group" aria-label="Known optima">
            <span class="hint">optima</span>
            {board.optima.map((x) => (
              <Button
                key={x.M} pressed={x.M === M} label={`M ${x.M}: ${x.words}, the optimum`}
                onClick={() => setParams({ M: String(x.M), s: undefined })}
              >
                M {x.M}: {x.words}
              </Button>
            ))}
          </div>
        )}
      </div>
      {own ? (
        <Own
          drawing={drawing} rules={rules} s={s} drawn={drawn} onDrawn={setDrawn} onS={onS}
          onChange={(next) => {
            setDrawing(next);
            setParams({ edges: toText(next).replaceAll("\n", ";") });
          }}
        />
      ) : (
        <Play
          key={`${graphId} ${gameId} ${M}`} places={places} s={s} onS={onS} compulsory={compulsory(graph)}
          setting={{ graph, rules, best: known(board!, M, "proved by iosim's solver") }}
        />
      )}
      <p class="says"><b>The game:</b> {game.says}</p>
      <p class="says">
        Optima and optimal games: <code>{data.about.command}</code>, commit {data.about.commit}, {data.about.date}.
      </p>
    </div>
  );
}

// A link may carry a drawing; one that is none is left out.
function drawingOf(edges: string | undefined): Drawing {
  try {
    return fromText(edges ?? FIRST);
  } catch (error) {
    if (error instanceof Refused) return fromText(FIRST);
    throw error;
  }
}

function whole(text: string | undefined, min: number, max: number): number | undefined {
  const x = Number(text);
  return text !== undefined && Number.isInteger(x) && x >= min && x <= max ? x : undefined;
}

export const view: View<PebblesData> = {
  id: "pebbles",
  title: "Pebbles",
  says: "The red-blue pebble game: compute a graph with M red pebbles and few transfers.",
  Component: Pebbles,
  keys: [
    ["arrows", "go from vertex to vertex"],
    ["L, C, S, D", "load, compute, store, delete the vertex"],
    ["A, 1 … 9", "add a term to a sum: the first that can be, or the k-th"],
    ["Enter", "the move that one likely wants"],
    ["U, R", "undo, redo"],
    ["H", "hint"],
    ["N, Enter, Delete", "in a drawing: new vertex, begin and end an edge, remove a vertex"],
    ["Shift and arrows", "in a drawing: move a vertex"],
  ],
};
