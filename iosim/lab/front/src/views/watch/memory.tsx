// Fast memory as a bar that fills to M, with a block for each buffer.
import { colorOf, say, signOf } from "../../ui";
import { tensorOfBuffer } from "./panels";
import type { Side } from "./setup";
import type { Moment } from "./timeline";

const NAMED = 0.06; // of the bar: blocks that are wide enough for a name

export function FastMemory({ side, moment }: { side: Side; moment: Moment }) {
  const used = moment.held.reduce((n, x) => n + x.words, 0);
  const { M, peak } = side;
  const over = used > M;
  const whole = Math.max(M, used);
  const part = (words: number) => `${(100 * words) / whole}%`;
  const blocks = moment.held.map((x) => ({ ...x, of: tensorOfBuffer(side.program, x) }));
  return (
    <section class="memory" aria-label={`Fast memory of ${side.schedule.name}`}>
      <p class="head">
        <strong>Fast memory</strong>{" "}
        <span class={over ? "wrong" : undefined}>
          <span data-used={used}>{say(used)}</span> of {say(M)} words
        </span>{" "}
        <span class="peak">peak of the run {say(peak)}</span>
      </p>
      <div class={over ? "filling over" : "filling"}>
        {blocks.map((x) => (
          <span
            key={x.buffer}
            class="block"
            title={`${x.buffer}: ${say(x.words)} words`}
            style={{ width: part(x.words), background: colorOf(x.of) }}
          >
            {x.words / whole >= NAMED && x.buffer}
          </span>
        ))}
        <span class="end" aria-hidden="true" style={{ left: part(M) }} />
        {peak <= M && peak < whole && <span class="top" aria-hidden="true" style={{ left: part(peak) }} />}
      </div>
      <ul class="blocks">
        {blocks.map((x) => (
          <li key={x.buffer}>
            <span aria-hidden="true" style={{ color: colorOf(x.of) }}>{signOf(x.of)}</span> {x.buffer}{" "}
            <span class="words">{say(x.words)}</span>
          </li>
        ))}
        <li class="free">{over ? `${say(used - M)} too many` : `free ${say(M - used)}`}</li>
      </ul>
    </section>
  );
}
