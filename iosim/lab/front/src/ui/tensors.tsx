// A tensor has one color and one sign everywhere, so that no color stands alone.
const SIGNS: Record<string, string> = {
  Q: "●", K: "■", V: "▲", O: "◆", S: "▼", P: "✚", A: "●", B: "■", C: "◆", X: "●", Y: "◆",
};

// A gradient has the color of what it is of, and a hollow sign.
const HOLLOW: Record<string, string> = { Q: "◎", K: "□", V: "△", O: "◇", S: "▽", P: "✢" };
const GRADIENT = /^d([QKVOSP])(?![a-z])/i;

// A buffer has its tensor's color: `k`, `K_next`, `k2` that of K, `dk` that of dK.
export function tensorOf(name: string): string {
  const first = (GRADIENT.exec(name)?.[1] ?? name.slice(0, 1)).toUpperCase();
  return first in SIGNS ? first : "other";
}

export const colorOf = (name: string): string => `var(--t-${tensorOf(name)})`;
export const signOf = (name: string): string => (GRADIENT.test(name) ? HOLLOW : SIGNS)[tensorOf(name)] ?? "○";

export function Legend({ names, label = "Tensors" }: { names: readonly string[]; label?: string }) {
  return (
    <ul class="legend" aria-label={label}>
      {names.map((name) => (
        <li key={name}>
          <span aria-hidden="true" style={{ color: colorOf(name) }}>{signOf(name)}</span> {name}
        </li>
      ))}
    </ul>
  );
}
