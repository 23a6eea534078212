// The picture of a moment: programs as dots on their way through K and V, and what L2 holds.
import { useEffect, useRef } from "preact/hooks";
import { useWidth } from "../../ui";
import type { Play } from "./reads";

interface StageProps {
  play: Play;
  frame: number;
  every: number; // share of the sweep between two barriers, 0 without
  label: string;
}

const STRIP = 26; // height of what L2 holds, in pixels
const TOP = 22;
const FOOT = 22;
const BARRIERS = 64; // more lines than these would be a grey field

export function Stage({ play, frame, every, label }: StageProps) {
  const { ref, width } = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const height = Math.round(Math.min(Math.max(width * 0.36, 230), 430));
  useEffect(() => {
    const on = canvas.current;
    if (!on) return;
    const scale = devicePixelRatio || 1;
    if (on.width !== width * scale) on.width = width * scale;
    if (on.height !== height * scale) on.height = height * scale;
    const pen = on.getContext("2d")!;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    draw(pen, width, height, play, frame, every);
  }); // at every rendering, as a change of the theme is one
  return (
    <div ref={ref}>
      <canvas ref={canvas} style={{ height: `${height}px` }} role="img" aria-label={label} />
    </div>
  );
}

function draw(pen: CanvasRenderingContext2D, width: number, height: number, play: Play, frame: number, every: number) {
  const style = getComputedStyle(pen.canvas);
  const color = (name: string) => style.getPropertyValue(name).trim();
  const [fg, muted, line] = [color("--fg"), color("--muted"), color("--line")];
  const [hit, miss, held] = [color("--t-Q"), color("--t-K"), color("--t-V")];
  const [left, right] = [10, width - 10];
  const across = (share: number) => left + share * (right - left);
  pen.clearRect(0, 0, width, height);
  pen.font = `13px ${style.fontFamily}`;

  // What L2 holds, and the same as bands behind the dots.
  const pieces = play.held[frame]!;
  const low = TOP + STRIP + 12;
  const bottom = height - FOOT;
  pen.fillStyle = muted;
  pen.fillText("K and V: what L2 holds of it", left, 15);
  for (let from = 0; from < pieces.length; from++) {
    if (!pieces[from]) continue;
    let to = from;
    while (pieces[to]) to++;
    const [x, w] = [across(from / pieces.length), across(to / pieces.length) - across(from / pieces.length)];
    pen.fillStyle = held;
    pen.globalAlpha = 0.85;
    pen.fillRect(x, TOP, w, STRIP);
    pen.globalAlpha = 0.14;
    pen.fillRect(x, low, w, bottom - low);
    pen.globalAlpha = 1;
    from = to;
  }
  pen.strokeStyle = line;
  pen.strokeRect(left, TOP, right - left, STRIP);

  if (every > 0 && 1 / every <= BARRIERS) {
    pen.strokeStyle = muted;
    pen.setLineDash([3, 4]);
    for (let x = every; x < 1; x += every) {
      pen.beginPath();
      pen.moveTo(across(x), low);
      pen.lineTo(across(x), bottom);
      pen.stroke();
    }
    pen.setLineDash([]);
  }

  // Dots: filled where the last read was found in L2; open where it came from DRAM.
  const missed = play.missed[frame]!;
  const at = play.timeOf(frame);
  const radius = Math.max(1.7, Math.min(6, (0.42 * (bottom - low)) / play.lanes + 1.2));
  for (const item of latest(play, frame)) {
    const lane = play.lane[item]!;
    const y = low + ((lane + 0.5) / play.lanes) * (bottom - low);
    pen.beginPath();
    pen.arc(across(Math.min(1, play.time.at(item, at))), y, missed[lane] ? radius + 0.8 : radius, 0, 2 * Math.PI);
    if (missed[lane]) {
      pen.strokeStyle = miss;
      pen.lineWidth = 1.8;
      pen.stroke();
    } else {
      pen.fillStyle = hit;
      pen.fill();
    }
  }
  pen.lineWidth = 1;
  pen.fillStyle = fg;
  pen.fillText("0", left, height - 6);
  pen.textAlign = "right";
  pen.fillText("end of K and V", right, height - 6);
  pen.textAlign = "left";
}

// Of each lane the item that started last; one that has ended waits at the end of its sweep.
function* latest(play: Play, frame: number): Iterable<number> {
  const seen = new Uint8Array(play.lanes);
  let left = play.lanes;
  for (let k = play.frames[frame]!.started - 1; k >= 0 && left > 0; k--) {
    const item = play.first[k]!;
    if (seen[play.lane[item]!]) continue;
    seen[play.lane[item]!] = 1;
    left--;
    yield item;
  }
}
