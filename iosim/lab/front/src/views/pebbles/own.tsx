// A graph drawn by hand: drawn, solved where it is small, and played.
import { useEffect, useMemo, useState } from "preact/hooks";
import { Button } from "../../ui";
import type { Known } from "./data";
import { type Drawing, graphFrom } from "./drawing";
import { Draw } from "./draw";
import { Play } from "./play";
import { compulsory, leastMemory, type Rules, start } from "./rules";
import { MOST } from "./search";
import { useSearch } from "./searching";

export const AT_ONCE = 12; // vertices: as many are solved without being asked

interface OwnProps {
  drawing: Drawing;
  rules: Rules;
  s: number;
  drawn: boolean; // whether it is being drawn
  onChange: (drawing: Drawing) => void;
  onS: (s: number) => void;
  onDrawn: (drawn: boolean) => void;
}

export function Own({ drawing, rules, s, drawn, onChange, onS, onDrawn }: OwnProps) {
  const graph = useMemo(() => graphFrom(drawing), [drawing.edges, [...drawing.places.keys()].join(" ")]);
  const playable = drawing.edges.length > 0;
  const fits = rules.M >= leastMemory(graph, false);
  const [found, setFound] = useState<Known | string>();
  const searching = useSearch();
  const solve = () => {
    setFound(undefined);
    searching.start(graph, rules, start(graph), (answer) => {
      if ("words" in answer) setFound({ words: answer.words, moves: answer.moves, theorem: undefined, by: "found by the search in this page" });
      else setFound("stopped" in answer ? answer.stopped : answer.lost);
    });
  };
  const small = graph.vertices.length <= AT_ONCE;
  useEffect(() => {
    searching.stop();
    setFound(undefined);
    if (playable && fits && small && !drawn) solve();
  }, [graph, rules.M, rules.recompute, drawn]);

  if (drawn) {
    return (
      <>
        <Draw drawing={drawing} onChange={onChange} />
        <p><Button class="play" disabled={!playable} onClick={() => onDrawn(false)}>Play on it</Button> {!playable && "Draw an edge first."}</p>
      </>
    );
  }
  if (!playable || !fits) {
    return <p><Button onClick={() => onDrawn(true)}>Draw</Button> {playable ? "" : "The graph has no edge yet."}</p>;
  }
  const best = typeof found === "object" ? found : undefined;
  return (
    <>
      <div class="buttons">
        <Button onClick={() => onDrawn(true)}>Change the drawing</Button>
        {searching.progress ? (
          <span role="status">
            Searching for the optimum: {searching.progress.states.toLocaleString("en-US")} positions, at least{" "}
            {searching.progress.atLeast} transfers <Button onClick={searching.stop}>Stop</Button>
          </span>
        ) : best ? null : (
          <span role="status">
            {typeof found === "string" ? `The optimum isn't known: ${found}. ` : small ? "" : `The optimum isn't known: the graph has ${graph.vertices.length} vertices, and up to ${AT_ONCE} are solved at once. `}
            {graph.vertices.length <= MOST && <Button onClick={solve}>Search for it</Button>}
          </span>
        )}
      </div>
      <Play
        key={`${graph.vertices.join()} ${drawing.edges.join(";")} ${rules.M} ${rules.recompute}`}
        setting={{ graph, rules, best }} places={drawing.places} compulsory={compulsory(graph)} s={s} onS={onS}
      />
    </>
  );
}
