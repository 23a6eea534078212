// cividis, a map that people with any color vision read alike: dark is few words, light is many.
import { scaleLinear } from "d3-scale";

const STOPS = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"];
const between = scaleLinear<string>(STOPS.map((_, k) => k / (STOPS.length - 1)), STOPS).clamp(true);
const STEPS = 256;

export const COLORS: readonly string[] = Array.from({ length: STEPS }, (_, k) => between(k / (STEPS - 1)));

// The same as pixels of a canvas: red, green, blue and opacity in four bytes.
const PIXELS = Uint32Array.from(COLORS, (color) => {
  const bytes = Uint8Array.from([...(color.match(/\d+/g) ?? []).slice(0, 3).map(Number), 255]);
  return new Uint32Array(bytes.buffer)[0]!;
});

// Equal steps of color for equal ratios.
export function pixelScale(low: number, high: number): (words: number) => number {
  const [first, span] = [Math.log(low), Math.log(high) - Math.log(low) || 1];
  return (words) => PIXELS[Math.round(((Math.log(words) - first) / span) * (STEPS - 1))]!;
}
