// One graph, one game, one M: the board, its moves, the log, hints, replay, and the segments.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useKeys } from "../../context";
import { Button, Player, useClock } from "../../ui";
import { Board, Blue, Red } from "./board";
import type { Known, Setting } from "./data";
import type { Place } from "./drawing";
import { type Playing, useGame } from "./history";
import { KEY, many } from "./names";
import {
  finished, type Forbidden, isForbidden, legal, missing, type Move, play, type Position, RULE, shown, tries, words,
} from "./rules";
import { lostValue } from "./search";
import { useSearch } from "./searching";
import { Cuts, latest, marksOf, Proof, Sets, useCut } from "./proof";

interface PlayProps {
  setting: Setting;
  places: ReadonlyMap<string, Place>;
  compulsory: number;
  s: number;
  onS: (s: number) => void;
}

interface Message {
  tone: "plain" | "no" | "hint" | "good";
  text: string;
  rule?: string;
  move?: Move; // that a hint proposes
}

export function Play({ setting, places, compulsory, s, onS }: PlayProps) {
  const { graph, rules, best } = setting;
  const game = useGame(graph, rules);
  const [selected, select] = useState(""); // none yet
  const [message, say] = useState<Message>({ tone: "plain", text: "Choose a vertex, then a move." });
  const [culprits, blame] = useState<readonly string[]>([]);
  const [segmentsOn, showSegments] = useState(false);
  const [chosen, choose] = useState(LAST);
  const own = useRef<{ moves: readonly Move[]; at: number }>();
  const [replaying, setReplaying] = useState(false);
  const [running, run] = useState(false);
  const [rate, setRate] = useState(2);
  const searching = useSearch();

  const cut = useCut(graph, rules, game.made, game.position, s);
  const at = chosen === LAST ? latest(cut) : Math.min(chosen, cut.cuts.length - 1);
  const marks = useMemo(() => (segmentsOn ? marksOf(cut, at, !rules.partial) : undefined), [segmentsOn, cut, at, rules]);

  const tell = (next: Message, whose: readonly string[] = []) => {
    say(next);
    blame(whose);
  };
  const refuse = (no: Forbidden) => tell({ tone: "no", text: no.why, rule: RULE[no.kind] }, no.culprits);
  const make = (move: Move) => {
    searching.stop();
    const no = game.play(move);
    if (no) return refuse(no);
    run(false);
    choose(LAST);
    tell(after(setting, game, move));
  };
  const go = (to: number) => {
    searching.stop();
    game.go(to);
    choose(LAST);
    const move = game.moves[to - 1];
    tell(move ? report(setting, game.positions[to]!, `After move ${to}, ${shown(move)}`) : { tone: "plain", text: "At the start." });
  };
  const replay = () => {
    own.current = { moves: game.moves, at: game.at };
    game.take(best!.moves, 0);
    setReplaying(true);
    tell({ tone: "plain", text: `An optimal game of ${best!.words} transfers, ${best!.by}. “Back to my game” shows your own game again.` });
  };
  const back = () => {
    game.take(own.current?.moves ?? [], own.current?.at ?? 0);
    run(false);
    setReplaying(false);
    tell({ tone: "plain", text: "Your own game." });
  };
  const hint = () => {
    if (finished(graph, game.position)) return tell({ tone: "good", text: "The game is finished: every output is blue." });
    const known = next(best, game);
    if (known) return propose(known, best!.words - words(game.position));
    tell({ tone: "plain", text: "Looking for the best that can still be done." });
    searching.start(graph, rules, game.position, (answer) => {
      if ("lost" in answer) return tell(gone(answer.lost), [answer.lost]);
      if ("stopped" in answer) return tell({ tone: "plain", text: `No hint: the search ended, since ${answer.stopped}.` });
      if (answer.moves[0]) propose(answer.moves[0], answer.words);
    });
  };
  const propose = (move: Move, more: number) => {
    const total = words(game.position) + more;
    const compared = best === undefined ? "" : total === best.words ? ", the optimum" : `, ${total - best.words} more than the optimum`;
    select(move.vertex);
    tell({ tone: "hint", move, text: `${shown(move)}. From here ${many(more, "transfer")} more are enough, and no fewer: ${total} in all${compared}.` });
  };
  const key = (v: string, pressed: string): boolean => {
    const k = pressed.toLowerCase();
    const kind = { l: "load", c: "compute", s: "store", d: "delete", delete: "delete", backspace: "delete" }[k];
    if (kind) make({ kind: kind as Move["kind"], vertex: v });
    else if (k === "a") add(v, undefined);
    else if (/^[1-9]$/.test(k) && rules.partial && graph.sums.has(v)) add(v, Number(k) - 1);
    else if (k === "enter" || k === " ") natural(v);
    else return false;
    return true;
  };
  const undo = () => game.at > 0 && go(game.at - 1);
  const redo = () => game.at < game.moves.length && go(game.at + 1);
  useKeys({ u: undo, r: redo, h: hint });
  const add = (v: string, k: number | undefined) => {
    const moves = tries(graph, rules, v).filter((m) => m.kind === "add");
    const allowed = moves.find((m) => !isForbidden(play(graph, rules, game.position, m)));
    make((k === undefined ? allowed ?? moves[0] : moves[k]) ?? { kind: "add", vertex: v });
  };
  // What one most likely wants of a vertex; never a deletion, which a click too many would be.
  const natural = (v: string) => {
    const found = legal(graph, rules, game.position, v);
    const of = (kind: string) => found.find((m) => m.kind === kind);
    const store = graph.outputs.has(v) ? of("store") : undefined;
    const move = of("compute") ?? of("add") ?? of("load") ?? store;
    if (!move && game.position.red.has(v)) tell({ tone: "plain", text: `${v} is red: D deletes it${of("store") ? ", S stores it" : ""}.` });
    else make(move ?? { kind: graph.preds.get(v)!.length ? "compute" : "load", vertex: v });
  };

  useClock(running, rate, (steps) => {
    const to = Math.min(game.at + steps, game.moves.length);
    go(to);
    if (to === game.moves.length) run(false);
  });
  const segmented = { graph, rules, cut, s, chosen: at, onS, onChoose: choose };
  return (
    <div class="pebble-play">
      <div class="table">
        <Board
          graph={graph} rules={rules} at={game.position} places={places} selected={selected}
          culprits={culprits} marks={marks} onSelect={select} onAgain={natural} onKey={key}
        />
        <Moves setting={setting} game={game} v={selected} onMove={make} />
        <div class={`message ${message.tone}`} role="status" aria-live="polite">
          <p>{message.tone === "hint" && <b>Hint: </b>}{message.text}</p>
          {message.rule && <p class="rule">{message.rule}</p>}
          {message.move && <Button onClick={() => make(message.move!)}>Play it</Button>}
          {searching.progress && (
            <p>
              {searching.progress.states.toLocaleString("en-US")} positions; at least {searching.progress.atLeast} more{" "}
              <Button onClick={searching.stop}>Stop</Button>
            </p>
          )}
        </div>
        {segmentsOn && <Cuts {...segmented} />}
      </div>
      <aside>
        <Score setting={setting} game={game} compulsory={compulsory} />
        <div class="buttons" role="group" aria-label="Game">
          <Button disabled={game.at === 0} onClick={undo}>Undo</Button>
          <Button disabled={game.at === game.moves.length} onClick={redo}>Redo</Button>
          <Button disabled={game.moves.length === 0} onClick={() => { run(false); game.take([], 0); tell({ tone: "plain", text: "A new game." }); }}>Reset</Button>
          <Button onClick={hint}>Hint</Button>
          <Button pressed={segmentsOn} onClick={() => showSegments(!segmentsOn)}>Segments</Button>
          {best && (replaying
            ? <Button onClick={back}>Back to my game</Button>
            : <Button onClick={replay}>Replay an optimal game</Button>)}
        </div>
        {replaying && (
          <Player
            playing={running} rate={rate} rates={[1, 2, 4, 8]} onRate={setRate}
            onPlay={(on) => { if (on && game.at === game.moves.length) go(0); run(on); }}
            onStep={(by) => go(Math.min(Math.max(game.at + by, 0), game.moves.length))}
            onEnd={(end) => go(end === "first" ? 0 : game.moves.length)}
          />
        )}
        {segmentsOn && <Sets {...segmented} />}
        <Log game={game} onGo={go} />
      </aside>
      {segmentsOn && !rules.partial && <Proof {...segmented} at={game.position} best={best} />}
    </div>
  );
}

const LAST = Infinity; // the latest segment

// While the game is the known optimal one so far, its next move; no search is needed for that.
function next(best: Known | undefined, { made, at }: Playing): Move | undefined {
  if (!best || made.some((m, k) => shown(m) !== shown(best.moves[k] ?? m))) return undefined;
  return best.moves[at];
}

const gone = (v: string): Message => ({
  tone: "no",
  text: `${v} was computed, has no pebble left, and is still needed; it may not be computed again. This game can't be finished: undo, and store ${v} before it is deleted.`,
});

// What is said after a move of one's own.
function after(setting: Setting, game: Playing, move: Move): Message {
  const at = play(setting.graph, setting.rules, game.position, move);
  if (isForbidden(at)) throw new Error(at.why);
  return report(setting, at, shown(move));
}

function report({ graph, rules, best }: Setting, at: Position, said: string): Message {
  const q = words(at);
  if (finished(graph, at)) {
    const compared = !best ? "" : q === best.words ? " That is the optimum: no game has fewer." : ` The optimum is ${best.words}: ${q - best.words} fewer are enough.`;
    return { tone: "good", text: `Finished with ${many(q, "transfer")}, ${many(at.loads, "load")} and ${many(at.stores, "store")}.${compared}` };
  }
  const lost = lostValue(graph, rules, at);
  if (lost !== undefined) return gone(lost);
  return { tone: "plain", text: `${said}: ${many(q, "transfer")}, ${at.red.size} of ${rules.M} red pebbles.` };
}

function Score({ setting: { graph, rules, best }, game, compulsory }: { setting: Setting; game: Playing; compulsory: number }) {
  const { position } = game;
  const left = missing(graph, position).length;
  return (
    <div class="score">
      <p class="transfers">
        <b data-count="transfers">{words(position)}</b> {words(position) === 1 ? "transfer" : "transfers"}
        <span> ({many(position.loads, "load")}, {many(position.stores, "store")})</span>
      </p>
      <p>
        {best ? <>optimum <b data-count="optimum">{best.words}</b>, {best.by}</> : <>optimum not known; no game moves fewer than <b>{compulsory}</b>, its inputs and outputs</>}
      </p>
      <p class="slots" role="img" aria-label={`${position.red.size} of ${rules.M} red pebbles are on the graph`}>
        {Array.from({ length: rules.M }, (_, k) => (
          <Sign key={k}>{k < position.red.size ? <Red x={0} size={9} /> : <circle class="free" r="9" />}</Sign>
        ))}
        <span>{position.red.size} of M = {rules.M}</span>
      </p>
      <p>{left === 0 ? "all outputs are blue" : `${left} of ${graph.outputs.size} outputs to go`}</p>
      <p class="key">
        <span><Sign><Red x={0} size={9} /></Sign> fast memory</span>
        <span><Sign><Blue x={0} size={8} /></Sign> slow memory</span>
        <span><Sign><g class="vertex"><circle class="ready" r="9" /></g></Sign> can be computed</span>
      </p>
      <p class="hint">Letters under a vertex: its legal moves. A second click plays the likely one.</p>
    </div>
  );
}

const Sign = ({ children }: { children: ComponentChildren }) => (
  <svg width="22" height="22" viewBox="-11 -11 22 22" aria-hidden="true">{children}</svg>
);

// The moves of the selected vertex.  Those that are forbidden can be pressed, too: then it is said why.
function Moves({ setting: { graph, rules }, game, v, onMove }: { setting: Setting; game: Playing; v: string; onMove: (move: Move) => void }) {
  return (
    <div class="moves" role="group" aria-label={v ? `Moves of ${v}` : "Moves"}>
      {v ? <b>{v}</b> : <span class="hint">No vertex is chosen.</span>}
      {v && tries(graph, rules, v).map((move) => {
        const allowed = !isForbidden(play(graph, rules, game.position, move));
        const name = move.term ? `add ${move.term}` : move.kind;
        return (
          <button
            type="button" key={name} class={allowed ? "button legal" : "button"} aria-disabled={!allowed}
            onClick={() => onMove(move)} title={allowed ? undefined : "forbidden now; press to see why"}
          >
            <kbd aria-hidden="true">{KEY[move.kind]}</kbd> {name}
          </button>
        );
      })}
    </div>
  );
}

function Log({ game, onGo }: { game: Playing; onGo: (at: number) => void }) {
  const list = useRef<HTMLOListElement>(null);
  useEffect(() => {
    const box = list.current;
    const row = box?.querySelector<HTMLElement>("[aria-current]");
    if (box && row) box.scrollTop = row.offsetTop - box.clientHeight / 2;
  }, [game.at, game.moves]);
  return (
    <div class="log">
      <h3 id="pebble-log">Moves</h3>
      {game.moves.length === 0 && <p class="hint">None yet.</p>}
      <ol ref={list} aria-labelledby="pebble-log">
        {game.moves.map((move, k) => (
          <li key={k} class={k < game.at ? move.kind : `undone ${move.kind}`}>
            <button type="button" onClick={() => onGo(k + 1)} aria-current={k + 1 === game.at ? "step" : undefined}>
              <span>{shown(move)}</span>
              <span class="paid">{k < game.at || game.positions[k + 1] ? words(game.positions[k + 1]!) : ""}</span>
            </button>
          </li>
        ))}
      </ol>
    </div>
  );
}

