// Where one stands in what is watched: by a clock, by keys, by buttons, and by the link.
import { useEffect, useRef, useState } from "preact/hooks";
import { useKeys } from "../../context";
import type { ViewProps } from "../../types";
import { useClock } from "../../ui";
import type { Going } from "./transport";

const LINK_MS = 300; // a link follows when nothing has moved for so long

type Moves = Pick<Going, "step" | "turn"> & Partial<Pick<Going, "transfer">>;

interface PlaceProps extends Pick<ViewProps, "params" | "setParams"> {
  given: number; // what the link says
  last: number;
  rate: number;
  moves: (at: number, stop: (to: number) => void) => Moves;
}

export function usePlace({ given, last, rate, params, setParams, moves }: PlaceProps) {
  const [position, setPosition] = useState(Math.min(given, last));
  const [playing, setPlaying] = useState(false);
  const at = Math.min(position, last);

  // The link says where; a link that is opened moves there.
  const linked = useRef(params.at);
  useEffect(() => {
    if (params.at === linked.current) return;
    linked.current = params.at;
    setPosition(given);
  }, [params.at]);
  useEffect(() => {
    const wait = setTimeout(() => {
      const text = at > 0 ? String(at) : undefined;
      // What a link says that was not understood stays there until something moves.
      if (at === given || (params.at === "end" && at === last)) return;
      linked.current = text;
      setParams({ at: text });
    }, LINK_MS);
    return () => clearTimeout(wait);
  }, [at, params]);

  const stop = (to: number) => {
    setPlaying(false);
    setPosition(Math.min(Math.max(0, to), last));
  };
  const going: Going = {
    play: (on) => {
      if (on && at >= last) setPosition(0);
      setPlaying(on);
    },
    to: stop,
    // Other tiles have another end, and one stays there.
    end: (end) => {
      setPlaying(false);
      setPosition(end === "first" ? 0 : Infinity);
    },
    ...moves(at, stop),
  };
  useClock(playing, rate, (steps) => {
    setPosition((now) => Math.min(last, Math.min(now, last) + steps));
    if (at + steps >= last) setPlaying(false);
  });
  const transfer = going.transfer ?? going.step;
  useKeys({
    " ": () => going.play(!playing),
    ArrowRight: () => going.step(1),
    ArrowLeft: () => going.step(-1),
    ".": () => transfer(1),
    ",": () => transfer(-1),
    "]": () => going.turn(1),
    "[": () => going.turn(-1),
    Home: () => going.end("first"),
    End: () => going.end("last"),
  });
  return { at, playing, going, setPosition, setPlaying };
}
