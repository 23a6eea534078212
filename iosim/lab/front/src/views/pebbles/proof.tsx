// The lower bound's segments, drawn over the game that was played: Hong and Kung's proof, step by step.
import { useMemo } from "preact/hooks";
import { Button, NumberField, Table } from "../../ui";
import type { Marks } from "./board";
import type { Known } from "./data";
import { many, parts as nameParts } from "./names";
import { finished, type Graph, type Move, type Position, type Rules } from "./rules";
import { clean, dominates, type Segment, segments } from "./segments";

export interface Cut {
  moves: readonly Move[]; // of the game, those that something uses
  kept: readonly number[]; // their numbers in the game
  unused: number;
  cuts: readonly Segment[];
}

export function useCut(graph: Graph, rules: Rules, made: readonly Move[], at: Position, s: number): Cut {
  return useMemo(() => {
    const kept = rules.partial ? made.map((_, k) => k) : clean(graph, made, finished(graph, at));
    const moves = kept.map((k) => made[k]!);
    return { moves, kept, unused: made.length - kept.length, cuts: segments(graph, moves, s) };
  }, [graph, rules, made, at, s]);
}

// The last segment that has a part; a game may end in stores of what an earlier one made.
export function latest({ cuts }: Cut): number {
  return cuts.reduce((found, { part }, k) => (part.length ? k : found), cuts.length - 1);
}

// What is marked on the board: all segments by number, and the sets of one of them.
export function marksOf(cut: Cut, chosen: number, whole: boolean): Marks {
  const segmentOf = new Map(cut.cuts.flatMap((x, k) => x.part.map((v) => [v, k + 1] as const)));
  const one = whole ? cut.cuts[chosen] : undefined;
  return {
    segmentOf, part: new Set(one?.part), dominator: new Set(one?.dominator), minimum: new Set(one?.minimum),
  };
}

interface SegmentsProps {
  graph: Graph;
  rules: Rules;
  cut: Cut;
  s: number;
  chosen: number;
  onS: (s: number) => void;
  onChoose: (segment: number) => void;
}

// Where the game is cut: under the board.
export function Cuts({ rules: { M }, cut, s, chosen, onS, onChoose }: SegmentsProps) {
  const h = cut.cuts.length;
  return (
    <section class="cuts" aria-label="Segments of the game">
      <div class="controls">
        <NumberField
          label="Transfers in a segment, s" value={s} min={1} max={2 * M} onChange={onS}
          hint={s === M ? "s = M, as in Hong and Kung" : `s = M is ${M}`}
        />
        <div class="steps" role="group" aria-label="Segment">
          <Button label="Segment before" disabled={chosen <= 0} onClick={() => onChoose(chosen - 1)}>◀</Button>
          <span aria-live="polite">segment {chosen + 1} of {h}</span>
          <Button label="Next segment" disabled={chosen >= h - 1} onClick={() => onChoose(chosen + 1)}>▶</Button>
        </div>
      </div>
      <ol class="strip" aria-label="Transfers, cut into segments">
        {cut.cuts.map((x, k) => (
          <li key={k}>
            <button
              type="button" aria-pressed={k === chosen} onClick={() => onChoose(k)}
              aria-label={`Segment ${k + 1}: ${many(x.loads, "load")}, ${many(x.stores, "store")}`}
            >
              <b>{k + 1}</b>
              {cut.moves.slice(x.from, x.to).map((m, j) => (
                <span key={j} class={m.kind} aria-hidden="true">{SIGN[m.kind]}</span>
              ))}
            </button>
          </li>
        ))}
      </ol>
    </section>
  );
}

const SIGN: Readonly<Partial<Record<string, string>>> = { load: "L", store: "S" };

// The sets of one segment: beside the board.
export function Sets({ graph, rules: { M, partial }, cut, s, chosen }: SegmentsProps) {
  const now = cut.cuts[chosen]!;
  const held = now.dominator.length - now.loads;
  const good = dominates(graph, new Set(now.dominator), new Set(now.part));
  if (partial) {
    return (
      <p>
        The theorem is about games that compute whole vertices. Here sums are taken term by term, so a
        segment has no part of the graph: only the cuts are shown. Its proof is seen in the games “each
        vertex once” and “recomputation allowed”.
      </p>
    );
  }
  return (
    <dl class="sets">
      <dt><i class="swatch part" /> Part V<sub>{chosen + 1}</sub>: first red in segment {chosen + 1}</dt>
      <dd><Names names={now.part} /></dd>
      <dt><i class="swatch">D</i> Dominator of V<sub>{chosen + 1}</sub>: {held} red at the start + {now.loads} loaded = {now.dominator.length} ≤ {M} + {s}</dt>
      <dd><Names names={now.dominator} />; {good ? "every path from an input to the part meets it" : "a path from an input misses it"}</dd>
      <dt><i class="swatch">m</i> Minimum: used by no vertex of V<sub>{chosen + 1}</sub>: {now.minimum.length} ≤ {M} + {s}</dt>
      <dd><Names names={now.minimum} />{now.minimum.length > 0 && "; red at the end, or stored"}</dd>
    </dl>
  );
}

interface ProofProps extends SegmentsProps {
  at: Position;
  best: Known | undefined;
}

// Why every game has to pay, with this game's numbers: below the board.
export function Proof({ graph, rules: { M }, at, cut, best, s, chosen, onChoose }: ProofProps) {
  const q = cut.cuts.reduce((sum, x) => sum + x.loads + x.stores, 0);
  const h = cut.cuts.length;
  const over = finished(graph, at);
  const S = M + s;
  return (
    <section class="pebble-proof" aria-label="The lower bound">
      <div>
        <h3>Why every game has to pay</h3>
        <ol class="steps-of-proof">
          <li>
            {over ? "The game" : "The game so far"} has {many(q, "transfer")}, cut into {many(h, "segment")} of s = {s}; all
            but the last are full, so <b>{q} ≥ {s}·({h} − 1) = {s * (h - 1)}</b>.
          </li>
          <li>
            A segment loads or computes a part V of the graph for the first time. What was red at its start, at
            most M = {M}, and what it loads, at most s = {s}, dominate V: every path from an input to V meets
            them. So V has a <b>dominator of at most M + s = {S}</b> vertices.
          </li>
          <li>
            What V makes for others is red at the segment's end, at most {M}, or stored in it, at most {s}: V
            has a <b>minimum of at most M + s = {S}</b> vertices.
          </li>
          <li>
            That holds for <em>every</em> game: its segments are a partition into such parts. Let P({S}) be the least
            number of parts of any such partition. Then no game has fewer segments: <b>Q ≥ s·(P(M + s) − 1)</b>.
          </li>
          <Says best={best} s={s} S={S} />
        </ol>
        {cut.unused > 0 && (
          <p>
            {many(cut.unused, "move")} left out, which nothing uses: the proof first cleans a game (Lemma 1), which
            never raises its cost.
          </p>
        )}
        <p class="says">
          Hong and Kung 1981, Theorem 3.1, for games of whole vertices, with recomputation or without; Q, M and s in
          words of the model. The proof is written out, and checked, in proofs/hong_kung.md.
        </p>
      </div>
      <Table
        caption={`All segments; dominator and minimum are at most M + s = ${S}`}
        columns={["segment", "loads", "stores", "part", "dominator", "minimum"]}
        current={chosen}
        rows={cut.cuts.map((x, k) => [
          <Button key={k} onClick={() => onChoose(k)} pressed={k === chosen} label={`Show segment ${k + 1}`}>{k + 1}</Button>,
          x.loads, x.stores, x.part.length, x.dominator.length, x.minimum.length,
        ])}
      />
    </section>
  );
}

function Says({ best, s, S }: { best: Known | undefined; s: number; S: number }) {
  const row = best?.theorem?.find((x) => x.s === s);
  if (!row) return <li>How small P({S}) is on this graph was not searched.</li>;
  const top = best!.theorem!.reduce((a, b) => (b.words > a.words ? b : a));
  return (
    <li>
      Here P({S}) = {row.parts}, found by search: <b>Q ≥ {s}·({row.parts} − 1) = {row.words}</b>. The optimum is{" "}
      {best!.words}.{" "}
      {top.words > row.words && `With s = ${top.s} the theorem says most, Q ≥ ${top.words}. `}
      {row.words === 0 && "On a graph this small one part is enough, and the theorem says nothing; it is about how Q grows."}
    </li>
  );
}

function Names({ names }: { names: readonly string[] }) {
  if (!names.length) return <>none</>;
  return (
    <>
      {names.map((v, k) => {
        const { stem, index } = nameParts(v);
        return <span key={v}>{k > 0 && ", "}{stem}{index && <sub>{index}</sub>}</span>;
      })}
    </>
  );
}
