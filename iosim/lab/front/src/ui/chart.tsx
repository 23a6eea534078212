// SVG figures over d3's scales: a frame that fills its width, and axes.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export interface Box {
  width: number; // of the whole figure, in pixels
  height: number;
  left: number; // where the plot begins and ends
  right: number;
  top: number;
  bottom: number;
}

// The width of an element as it is drawn.
export function useWidth<E extends HTMLElement>(first = 640) {
  const ref = useRef<E>(null);
  const [width, setWidth] = useState(first);
  useEffect(() => {
    // In the next frame: a figure that grows in this one would be reported as a loop of resizes.
    let frame = 0;
    const seen = new ResizeObserver(([entry]) => {
      cancelAnimationFrame(frame);
      if (entry && entry.contentRect.width > 0)
        frame = requestAnimationFrame(() => setWidth(Math.round(entry.contentRect.width)));
    });
    if (ref.current) seen.observe(ref.current);
    return () => (cancelAnimationFrame(frame), seen.disconnect());
  }, []);
  return { ref, width };
}

interface FigureProps {
  label: string; // what a screen reader says of it
  ratio?: number; // height over width
  least?: number; // height in pixels
  most?: number;
  margin?: { left: number; right: number; top: number; bottom: number };
  children: (box: Box) => ComponentChildren;
}

const MARGIN = { left: 64, right: 12, top: 12, bottom: 44 };

export function Figure({ label, ratio = 0.55, least = 220, most = 560, margin = MARGIN, children }: FigureProps) {
  const { ref, width } = useWidth<HTMLDivElement>();
  const height = Math.round(Math.min(Math.max(width * ratio, least), most));
  const box = {
    width, height, left: margin.left, right: width - margin.right,
    top: margin.top, bottom: height - margin.bottom,
  };
  return (
    <div class="figure" ref={ref}>
      <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
        {children(box)}
      </svg>
    </div>
  );
}

interface Scale {
  (x: number): number;
  ticks(count?: number): number[];
}

interface AxisProps {
  scale: Scale;
  box: Box;
  label: string;
  format?: (x: number) => string;
  ticks?: readonly number[];
  count?: number;
}

export function AxisX({ scale, box, label, format = String, ticks, count }: AxisProps) {
  return (
    <g class="axis">
      <line x1={box.left} x2={box.right} y1={box.bottom} y2={box.bottom} />
      {(ticks ?? scale.ticks(count ?? box.width / 90)).map((x) => (
        <g key={x} transform={`translate(${scale(x)},${box.bottom})`}>
          <line class="grid" y1={0} y2={box.top - box.bottom} />
          <line y2={5} />
          <text y={18} text-anchor="middle">{format(x)}</text>
        </g>
      ))}
      <text class="title" x={(box.left + box.right) / 2} y={box.bottom + 38} text-anchor="middle">{label}</text>
    </g>
  );
}

export function AxisY({ scale, box, label, format = String, ticks, count }: AxisProps) {
  return (
    <g class="axis">
      <line x1={box.left} x2={box.left} y1={box.top} y2={box.bottom} />
      {(ticks ?? scale.ticks(count ?? box.height / 60)).map((y) => (
        <g key={y} transform={`translate(${box.left},${scale(y)})`}>
          <line class="grid" x1={0} x2={box.right - box.left} />
          <line x2={-5} />
          <text x={-8} dy="0.32em" text-anchor="end">{format(y)}</text>
        </g>
      ))}
      <text class="title" transform={`translate(14,${(box.top + box.bottom) / 2}) rotate(-90)`} text-anchor="middle">
        {label}
      </text>
    </g>
  );
}
