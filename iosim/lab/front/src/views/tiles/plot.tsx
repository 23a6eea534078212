// The plane: words as color on a canvas; over it axes, the edge of what fits, marks, and a handle.
import { scaleLog, type ScaleLogarithmic } from "d3-scale";
import { useEffect, useRef } from "preact/hooks";
import { AxisX, AxisY, dragging, powers, say, useName, useWidth, type Box } from "../../ui";
import { pixelScale } from "./colors";
import type { Grid, Point } from "./model";

type Scale = ScaleLogarithmic<number, number>;

interface PlotProps {
  x: string;
  y: string;
  wide: number; // of both axes: the largest tile
  high: number;
  grid: Grid;
  edge: readonly (readonly [number, number])[];
  marks: readonly Point[];
  you: Point;
  told: string;
  onMove: (x: number, y: number) => void;
}

const MARGIN = { left: 66, right: 12, top: 10, bottom: 46 };
const PAST = 1.12; // the last cell is one value; so that it is seen, axes end a little after it

export function PlanePlot({ x, y, wide, high, grid, edge, marks, you, told, onMove }: PlotProps) {
  const { ref, width } = useWidth<HTMLDivElement>();
  const height = Math.round(Math.min(Math.max(width * 0.86, 280), 520));
  const box: Box = {
    width, height, left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom,
  };
  const across = scaleLog([1, wide * PAST], [box.left, box.right]);
  const up = scaleLog([1, high * PAST], [box.bottom, box.top]);
  const moveTo = (event: PointerEvent) => {
    const { left, top } = ref.current!.getBoundingClientRect();
    onMove(whole(across.invert(event.clientX - left), wide), whole(up.invert(event.clientY - top), high));
  };
  return (
    <div class="tiles-plot" ref={ref} style={{ height: `${height}px` }}>
      <Cells grid={grid} box={box} x={across} y={up} />
      <svg width={width} height={height} role="img" aria-label={`Words over the plane of ${x} and ${y}, and where they fit`}>
        <Unfit edge={edge} box={box} x={across} y={up} wide={wide} high={high} />
        <AxisX scale={across} box={box} label={`${x}, of ${say(wide)}`} ticks={powers(4, across, width / 70)} format={say} />
        <AxisY scale={up} box={box} label={`${y}, of ${say(high)}`} ticks={powers(4, up, 8)} format={say} />
        {marks.map((mark) => <Sign key={`${mark.what} ${mark.tiles[x]} ${mark.tiles[y]}`} sign={mark.sign} x={across(mark.tiles[x]!)} y={up(mark.tiles[y]!)} />)}
        {["rim", ""].map((kind) => (
          <g key={kind} class={`tiles-cross ${kind}`}>
            <line x1={across(you.tiles[x]!)} x2={across(you.tiles[x]!)} y1={box.top} y2={box.bottom} />
            <line x1={box.left} x2={box.right} y1={up(you.tiles[y]!)} y2={up(you.tiles[y]!)} />
          </g>
        ))}
        <Sign sign="you" x={across(you.tiles[x]!)} y={up(you.tiles[y]!)} />
      </svg>
      <div
        class="tiles-handle"
        role="slider"
        tabIndex={0}
        aria-label={`Tiles ${x} and ${y}`}
        aria-valuemin={1}
        aria-valuemax={wide}
        aria-valuenow={you.tiles[x]!}
        aria-valuetext={told}
        onKeyDown={(event) => {
          const to = stepped(event, you.tiles[x]!, you.tiles[y]!);
          if (!to) return;
          event.preventDefault();
          onMove(whole(to[0], wide), whole(to[1], high));
        }}
        {...dragging(moveTo)}
      />
    </div>
  );
}

const whole = (v: number, most: number): number => Math.min(Math.max(Math.round(v), 1), most);

// Arrows change a tile by one, with Shift by a factor of two.
function stepped(event: KeyboardEvent, x: number, y: number): [number, number] | undefined {
  const more = (v: number) => (event.shiftKey ? 2 * v : v + 1);
  const less = (v: number) => (event.shiftKey ? Math.ceil(v / 2) : v - 1);
  switch (event.key) {
    case "ArrowRight": return [more(x), y];
    case "ArrowLeft": return [less(x), y];
    case "ArrowUp": return [x, more(y)];
    case "ArrowDown": return [x, less(y)];
    default: return undefined;
  }
}

interface CellsProps { grid: Grid; box: Box; x: Scale; y: Scale }

// A cell is the tiles from one value to the next: all of them have the same trip counts.
function Cells({ grid, box, x, y }: CellsProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, height] = [box.right - box.left, box.bottom - box.top];
  useEffect(() => {
    const pen = canvas.current?.getContext("2d");
    if (!pen) return;
    const pixel = pixelScale(grid.low, grid.high);
    const image = pen.createImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    const lefts = [...grid.xs.map((v) => Math.floor(x(v) - box.left)), width];
    const tops = [...grid.ys.map((v) => Math.floor(y(v) - box.top)), 0];
    // A row of cells is one line of pixels, many times.
    const row = new Uint32Array(width);
    grid.ys.forEach((_, j) => {
      grid.xs.forEach((_, i) => row.fill(pixel(grid.words[j * grid.xs.length + i]!), lefts[i], lefts[i + 1]));
      for (let at = tops[j + 1]!; at < tops[j]!; at++) pixels.set(row, at * width);
    });
    pen.putImageData(image, 0, 0);
  }, [grid, width, height]);
  return <canvas ref={canvas} width={width} height={height} style={{ left: `${box.left}px`, top: `${box.top}px` }} aria-hidden="true" />;
}

interface UnfitProps { edge: PlotProps["edge"]; box: Box; x: Scale; y: Scale; wide: number; high: number }

function Unfit({ edge, box, x, y, wide, high }: UnfitProps) {
  const hatch = useName();
  // What fits ends after the largest tile that does.
  const line = edge.map(([a, b], k) => {
    const past = edge[k + 1]?.[0] ?? wide * PAST;
    const at = b >= high ? box.top : b < 1 ? box.bottom : y(b + 1);
    return `L${x(a)},${at}L${x(past)},${at}`;
  }).join("").slice(1);
  const all = edge.every(([, b]) => b >= high);
  return (
    <g class="tiles-unfit">
      <defs>
        <pattern id={hatch} width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <line y2="7" />
        </pattern>
      </defs>
      <path class="veil" d={`M${line}L${box.right},${box.top}L${box.left},${box.top}Z`} />
      <path fill={`url(#${hatch})`} d={`M${line}L${box.right},${box.top}L${box.left},${box.top}Z`} />
      {!all && <path class="edge" d={`M${line}`} />}
      {!all && (
        <text x={box.right - 8} y={box.top + 20} text-anchor="end">does not fit</text>
      )}
    </g>
  );
}

// Marks have a shape each; a dark rim and a light one show on any color.
const SHAPES: Record<Point["sign"], string> = {
  you: "M0,-9A9,9 0 1 1 -0.01,-9Z",
  optimum: "M0,-11L2.6,-3.6L10.5,-3.4L4.2,1.4L6.5,8.9L0,4.4L-6.5,8.9L-4.2,1.4L-10.5,-3.4L-2.6,-3.6Z",
  rule: "M-7,-7H7V7H-7Z",
  block: "M0,-6L6,0L0,6L-6,0Z",
};

export function Sign({ sign, x, y }: { sign: Point["sign"]; x: number; y: number }) {
  return (
    <g class={`tiles-sign ${sign}`} transform={`translate(${x},${y})`}>
      <path class="rim" d={SHAPES[sign]} />
      <path d={SHAPES[sign]} />
    </g>
  );
}
