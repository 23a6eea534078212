// A tensor has one colour and one sign everywhere, so that no colour stands alone.
const SIGNS: Record<string, string> = {
  Q: "●", K: "■", V: "▲", O: "◆", S: "▼", P: "✚", A: "●", B: "■", C: "◆", X: "●", Y: "◆",
};

// A buffer has its tensor's colour: `k`, `K_next`, `k2` that of K.
export function tensorOf(name: string): string {
  const first = name.slice(0, 1).toUpperCase();
  return first in SIGNS ? first : "other";
}

export const colourOf = (name: string): string => `var(--t-${tensorOf(name)})`;
export const signOf = (name: string): string => SIGNS[tensorOf(name)] ?? "○";

export function Legend({ names, label = "Tensors" }: { names: readonly string[]; label?: string }) {
  return (
    <ul class="legend" aria-label={label}>
      {names.map((name) => (
        <li key={name}>
          <span aria-hidden="true" style={{ color: colourOf(name) }}>{signOf(name)}</span> {name}
        </li>
      ))}
    </ul>
  );
}
