// The lower bound's segments, drawn over the game that was played: Hong and Kung's proof, step by step.
import { useMemo } from "preact/hooks";
import { Button, NumberField, Table } from "../../ui";
import type { Marks } from "./board";
import type { Known } from "./data";
import { parts as nameParts } from "./names";
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
  at: Position;
  cut: Cut;
  best: Known | undefined;
  s: number;
  chosen: number;
  onS: (s: number) => void;
  onChoose: (segment: number) => void;
}

export function Segments({ graph, rules, at, cut, best, s, chosen, onS, onChoose }: SegmentsProps) {
  const { M, partial } = rules;
  const q = cut.cuts.reduce((sum, x) => sum + x.loads + x.stores, 0);
  const h = cut.cuts.length;
  const now = cut.cuts[Math.min(chosen, h - 1)]!;
  const over = finished(graph, at);
  const S = M + s;
  return (
    <section class="pebble-proof" aria-label="Segments of the lower bound">
      <div class="controls">
        <NumberField
          label="Transfers in a segment, s" value={s} min={1} max={2 * M} onChange={onS}
          hint={s === M ? "s = M, as Hong and Kung have it" : `s = M is ${M}`}
        />
        <div class="steps" role="group" aria-label="Segment">
          <Button label="Segment before" disabled={chosen <= 0} onClick={() => onChoose(chosen - 1)}>◀</Button>
          <span aria-live="polite">segment {Math.min(chosen, h - 1) + 1} of {h}</span>
          <Button label="Next segment" disabled={chosen >= h - 1} onClick={() => onChoose(chosen + 1)}>▶</Button>
        </div>
      </div>
      <Strip cut={cut} chosen={chosen} onChoose={onChoose} />
      {partial ? (
        <p>
          The theorem is about games that compute whole vertices. Here sums are taken term by term, so
          a segment has no part of the graph; only the cuts are shown. Choose the game “each vertex
          once” or “recomputation allowed” to see its proof.
        </p>
      ) : (
        <>
          <Sets graph={graph} M={M} s={s} now={now} number={Math.min(chosen, h - 1) + 1} />
          <Counts cut={cut} M={M} s={s} chosen={chosen} onChoose={onChoose} />
          {cut.unused > 0 && (
            <p>
              {cut.unused} {cut.unused === 1 ? "move is" : "moves are"} left out, which nothing uses: the proof
              first cleans a game (Lemma 1), which never makes it dearer.
            </p>
          )}
          <h4>Why every game has to pay</h4>
          <ol class="steps-of-proof">
            <li>
              {over ? "The game" : "The game so far"} has {q} {q === 1 ? "transfer" : "transfers"}, cut into {h}{" "}
              {h === 1 ? "segment" : "segments"} of s = {s}; all but the last are full, so{" "}
              <b>{q} ≥ {s}·({h} − 1) = {s * (h - 1)}</b>.
            </li>
            <li>
              Segment t computes or loads for the first time a part V of the graph. What was red at its start
              (at most M = {M}) and what it loads (at most s = {s}) dominate V: every path from an input
              to V meets them. So V has a <b>dominator of at most M + s = {S}</b>. What V makes for later must be
              red at the end (at most {M}) or stored (at most {s}): its <b>minimum has at most {S}</b>.
            </li>
            <li>
              That holds for <em>every</em> game. So its segments are a partition into such parts, and
              none can have fewer than P({S}), the least number of parts that any partition with
              these limits has: <b>Q ≥ s·(P(M + s) − 1)</b>.
            </li>
            <Says best={best} s={s} S={S} />
          </ol>
          <p class="says">
            Hong and Kung 1981, Theorem 3.1, for games of whole vertices, with recomputation or without; M and s in
            words of the model. The proof is written out and checked in proofs/hong_kung.md.
          </p>
        </>
      )}
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

// The moves in a row, transfers as squares, with the cuts between them.
function Strip({ cut, chosen, onChoose }: { cut: Cut; chosen: number; onChoose: (k: number) => void }) {
  return (
    <ol class="strip" aria-label="The game, cut into segments">
      {cut.cuts.map((x, k) => (
        <li key={k} class={`segment-${k % 6}`}>
          <button
            type="button" aria-pressed={k === chosen} onClick={() => onChoose(k)}
            aria-label={`Segment ${k + 1}: ${x.loads} loads, ${x.stores} stores`}
          >
            <b>{k + 1}</b>
            {cut.moves.slice(x.from, x.to).map((m, j) => (
              <span key={j} class={m.kind} aria-hidden="true">{{ load: "L", store: "S", delete: "", compute: "", add: "" }[m.kind]}</span>
            ))}
          </button>
        </li>
      ))}
    </ol>
  );
}

function Sets({ graph, M, s, now, number }: { graph: Graph; M: number; s: number; now: Segment; number: number }) {
  const held = now.dominator.length - now.loads;
  const good = dominates(graph, new Set(now.dominator), new Set(now.part));
  return (
    <dl class="sets">
      <dt><i class="swatch part" /> Part V<sub>{number}</sub>, first red in segment {number}: {now.part.length}</dt>
      <dd><Names names={now.part} /></dd>
      <dt>
        <i class="swatch">D</i> Dominator: {held} red at the start + {now.loads} loaded = {now.dominator.length} ≤ {M} + {s} = {M + s};{" "}
        {good ? "every path from an input to the part meets it" : "a path misses it"}
      </dt>
      <dd><Names names={now.dominator} /></dd>
      <dt>
        <i class="swatch">m</i> Minimum, vertices of the part that no vertex of the part uses: {now.minimum.length} ≤ {M + s}; all are
        red at the end, or stored
      </dt>
      <dd><Names names={now.minimum} /></dd>
    </dl>
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

function Counts({ cut, M, s, chosen, onChoose }: { cut: Cut; M: number; s: number; chosen: number; onChoose: (k: number) => void }) {
  return (
    <Table
      caption={`All segments; limits ${M + s} = M + s`}
      columns={["segment", "loads", "stores", "part |V|", "dominator |D|", "minimum", "limit M + s"]}
      current={chosen}
      rows={cut.cuts.map((x, k) => [
        <Button key={k} onClick={() => onChoose(k)} pressed={k === chosen} label={`Show segment ${k + 1}`}>{k + 1}</Button>,
        x.loads, x.stores, x.part.length, x.dominator.length, x.minimum.length, M + s,
      ])}
    />
  );
}
