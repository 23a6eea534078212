// cividis, a map that people with any colour vision read alike: dark is few words, light is many.
import { scaleLinear } from "d3-scale";

const STOPS = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"];
const between = scaleLinear<string>(STOPS.map((_, k) => k / (STOPS.length - 1)), STOPS).clamp(true);
const STEPS = 256;

export const COLOURS: readonly string[] = Array.from({ length: STEPS }, (_, k) => between(k / (STEPS - 1)));

// Equal steps of colour for equal ratios.
export function colourScale(low: number, high: number): (words: number) => string {
  const [first, span] = [Math.log(low), Math.log(high) - Math.log(low) || 1];
  return (words) => COLOURS[Math.round(((Math.log(words) - first) / span) * (STEPS - 1))] ?? COLOURS[0]!;
}
