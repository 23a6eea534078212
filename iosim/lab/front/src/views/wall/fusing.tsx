// Fusing a layer by hand: bytes at L2↔DRAM, least time and what sets it, beside the known fusions.
import { useMemo, useState } from "preact/hooks";
import { Button, say, Table } from "../../ui";
import { at, L2_DRAM, type Layer, type Machine, type WallData } from "./data";
import { bytesOf, tensorNames, type Edge } from "./edges";
import { GraphView } from "./graph";
import { cost, type Cost, type Kernel, type Rules } from "./rules";
import { digits, micro, percent, short } from "./said";

interface Props {
  rules: Rules;
  layer: Layer;
  machine: Machine;
  edges: readonly Edge[];
  kernels: readonly Kernel[];
  onKernels: (kernels: readonly Kernel[]) => void;
  known: readonly { name: string; kernels: readonly Kernel[] }[];
  says: WallData["fusions"];
  onKnown: (name: string) => void;
}

export function useCosts(rules: Rules, layer: Layer, machine: Machine) {
  return useMemo(() => {
    const found = new Map<string, Cost>();
    return (ops: Kernel): Cost => {
      const id = ops.join(" ");
      let known = found.get(id);
      if (!known) {
        const verdict = rules.judge(ops);
        known = cost(layer, machine, ops, verdict.legal ? verdict.parts : []);
        found.set(id, known);
      }
      return known;
    };
  }, [rules, layer, machine]);
}

const total = (kernels: readonly Kernel[], of: (ops: Kernel) => Cost) => {
  const each = kernels.map(of);
  const sum = (value: (x: Cost) => number) => each.reduce((a, x) => a + value(x), 0);
  return { kernels: kernels.length, bytes: sum((x) => x.bytes[L2_DRAM] ?? 0), words: sum((x) => x.words), seconds: sum((x) => x.seconds) };
};

export function Fusing({ rules, layer, machine, edges, kernels, onKernels, known, says, onKnown }: Props) {
  const of = useCosts(rules, layer, machine);
  const [said, setSaid] = useState<{ text: string; wrong?: boolean }>();
  const [look, setLook] = useState<string>();
  const [chosen, setChosen] = useState<ReadonlySet<number>>(new Set());
  const [past, setPast] = useState<(readonly Kernel[])[]>([]);
  const here = total(kernels, of);
  const none = total(known.find((x) => x.name === "none")!.kernels, of);
  const picked = kernels.filter((k) => chosen.has(k[0]!));

  const change = (next: readonly Kernel[], text: string) => {
    setPast([...past.slice(-99), kernels]);
    setChosen(new Set());
    setSaid({ text });
    onKernels(next);
  };
  const fuse = (some: readonly Kernel[]) => {
    const found = rules.fuse(kernels, some);
    if ("why" in found) return setSaid({ text: `No kernel. ${found.why}.`, wrong: true });
    const made = of(found.made);
    if (made.missing.includes(L2_DRAM))
      return setSaid({ text: `No kernel. ${rules.names(found.made)} don't fit in the ${machine.cache} of ${machine.title}.`, wrong: true });
    const before = some.map(of);
    const saved = before.reduce((a, x) => a + x.bytes[L2_DRAM]!, 0) - made.bytes[L2_DRAM]!;
    const sooner = before.reduce((a, x) => a + x.seconds, 0) - made.seconds;
    change(found.kernels, `${rules.names(found.made)}: one kernel. It moves ${say(Math.abs(saved))} bytes ${saved < 0 ? "more" : "less"} at L2↔DRAM and takes at least ${micro(Math.abs(sooner))} µs ${sooner < 0 ? "longer" : "less"}; ${made.bound}: ${made.limit}.`);
  };
  const click = (edge: Edge) => {
    const [a, b] = [edge.from, edge.to].map((op) => kernels.find((k) => k.includes(op))!) as [Kernel, Kernel];
    if (a !== b) return fuse([a, b]);
    const found = rules.cut(kernels, a, edge.to);
    if ("why" in found) return setSaid({ text: `Not cut here. ${found.why}.`, wrong: true });
    change(found.kernels, `Cut between ${rules.names([edge.from])} and ${rules.names([edge.to])}.`);
  };
  const toggle = (kernel: Kernel) => {
    const next = new Set(chosen);
    if (!next.delete(kernel[0]!)) next.add(kernel[0]!);
    setChosen(next);
  };
  const undo = () => {
    onKernels(past.at(-1)!);
    setPast(past.slice(0, -1));
    setChosen(new Set());
    setSaid({ text: "Undone." });
  };

  return (
    <section aria-label="Fusing" class="wall-fusing">
      <h3>Fuse the layer’s graph</h3>
      <p class="hint">
        An edge is a tensor: the wider, the more bytes. Click it, or press Enter on it, and its two ends become one kernel, where a
        schedule computes them as one; again, and they are cut. A dashed edge joins two operators that read one tensor. Weights and
        inputs are not drawn, and count.
      </p>
      <Sums {...{ known, says, here, none, of, onKnown: (name: string) => { setPast([...past, kernels]); setSaid({ text: `Loaded ${name}.` }); setChosen(new Set()); onKnown(name); } }} />
      <div class={`wall-pair${rules.graph.waits.length ? "" : " narrow"}`}>
        <div class="wall-frame">
          <div class="wall-acts">
            <Button onClick={() => fuse(picked)} disabled={picked.length < 2}>Fuse the {picked.length || ""} chosen kernels</Button>
            <Button onClick={() => change(picked.reduce((all, k) => rules.apart(all, k), kernels as Kernel[]), "Split.")} disabled={!picked.some((k) => k.length > 1)}>
              Split the selection
            </Button>
            <Button onClick={undo} disabled={!past.length}>Undo</Button>
            <span class="wall-now">
              <strong>{here.kernels} kernels</strong>, {short(here.bytes, "B")} at L2↔DRAM, {percent(here.bytes / none.bytes)} of none; {micro(here.seconds)} µs, {percent(here.seconds / none.seconds)}
            </span>
          </div>
          <p class={`wall-said${said?.wrong ? " wrong" : ""}`} role="status" id="wall-said">{said?.text ?? "Nothing is fused by hand yet: click an edge."}</p>
          <p class="wall-look" aria-hidden="true">{look ?? " "}</p>
          <GraphView {...{ rules, layer, edges, kernels, chosen }} onEdge={click} onNode={(k) => toggle(kernels.find((x) => x.includes(k))!)} onLook={setLook} />
        </div>
        <Kernels {...{ rules, kernels, of, chosen, toggle, machine }} />
      </div>
      <details>
        <summary>The graph as a table: {edges.length} edges</summary>
        <Table
          caption="Edges: two operators, and the tensor between them"
          columns={["from", "to", "tensor", "bytes of the tensor", "how", "in one kernel", "do"]}
          rows={edges.map((e) => {
            const inside = kernels.some((k) => k.includes(e.from) && k.includes(e.to));
            return [
              rules.names([e.from]), rules.names([e.to]), tensorNames(e, rules.graph), bytesOf(e, layer),
              { flow: "from one to the next", saved: "saved for the backward pass", shared: "both read it" }[e.kind],
              inside ? "yes" : "no",
              <Button onClick={() => click(e)} label={`${inside ? "Cut" : "Fuse"} ${rules.names([e.from, e.to])}`}>{inside ? "Cut" : "Fuse"}</Button>,
            ];
          })}
        />
      </details>
    </section>
  );
}

interface SumsProps {
  known: Props["known"];
  says: Props["says"];
  here: ReturnType<typeof total>;
  none: ReturnType<typeof total>;
  of: (ops: Kernel) => Cost;
  onKnown: (name: string) => void;
}

// Yours beside the known ones, as bars of bytes and of time.
function Sums({ known, says, here, none, of, onKnown }: SumsProps) {
  const rows = [...known.map((x) => ({ name: x.name, sum: total(x.kernels, of), load: true })), { name: "yours", sum: here, load: false }];
  const bar = (share: number) => <span class="wall-bar" aria-hidden="true"><span style={{ width: `${Math.min(100, 100 * share)}%` }} /></span>;
  return (
    <div class="wall-sums">
      <Table
        caption={`Sums of the layer; share of none saved by yours: ${percent(1 - here.bytes / none.bytes)} of the bytes at L2↔DRAM, ${percent(1 - here.seconds / none.seconds)} of the least time`}
        columns={["fusion", "kernels", "bytes, L2↔DRAM", "of none", "", "least µs", "of none ", " "]}
        current={rows.length - 1}
        rows={rows.map(({ name, sum, load }) => [
          load ? <Button onClick={() => onKnown(name)} label={`Start from ${name}`}>{name}</Button> : <strong>yours</strong>,
          sum.kernels,
          <span class="right" data-sum={name} data-words={sum.words} data-seconds={sum.seconds}>{say(sum.bytes)}</span>,
          <span class="right">{percent(sum.bytes / none.bytes)}</span>,
          bar(sum.bytes / none.bytes),
          <span class="right">{micro(sum.seconds)}</span>,
          <span class="right">{percent(sum.seconds / none.seconds)}</span>,
          bar(sum.seconds / none.seconds),
        ])}
      />
      <dl class="wall-known" aria-label="What the fusions are">
        {known.map(({ name }) => [<dt key={name}>{name}</dt>, <dd key={`${name}-says`}>{says[name]}</dd>])}
      </dl>
    </div>
  );
}

interface KernelsProps {
  rules: Rules;
  kernels: readonly Kernel[];
  of: (ops: Kernel) => Cost;
  chosen: ReadonlySet<number>;
  toggle: (kernel: Kernel) => void;
  machine: Machine;
}

function Kernels({ rules, kernels, of, chosen, toggle, machine }: KernelsProps) {
  const fused = kernels.filter((k) => k.length > 1);
  const columns = ["", "kernel", "bytes, L2↔DRAM", "bytes saved", "FLOP/B", "least µs", "set by"];
  const small = kernels.some((k) => of(k).missing.length);
  return (
    <div class="wall-kernels">
      <Table
        caption="Kernels, in an order in which they run"
        columns={columns}
        rows={kernels.map((ops) => {
          const x = of(ops);
          const alone = ops.reduce((sum, k) => sum + of([k]).bytes[L2_DRAM]!, 0);
          const number = fused.indexOf(ops);
          return [
            <input type="checkbox" checked={chosen.has(ops[0]!)} onChange={() => toggle(ops)} aria-label={`Choose ${rules.names(ops)}`} />,
            <span class="wall-names">
              {number >= 0 && <span class="wall-number" style={{ background: `var(--wall-${number % 6})` }}>{number + 1}</span>} {rules.names(ops)}
            </span>,
            x.bytes[L2_DRAM] ?? 0,
            alone - (x.bytes[L2_DRAM] ?? 0),
            <span class="right">{digits(x.intensity)}</span>,
            <span class="right">{micro(x.seconds)}</span>,
            <span>{x.bound}: {x.limit}{x.missing.length ? " ⚠" : ""}</span>,
          ];
        })}
      />
      {small && <p class="hint">⚠ At SM↔L2 it doesn’t fit in one {machine.core} of {machine.title}: its time there is left out.</p>}
      <p class="hint">
        M at L2↔DRAM is what the {machine.cache} holds, {machine.numbers.find((x) => x.name === "cache_bytes")?.said}. {short(kernels.reduce((a, k) => a + of(k).flop, 0), "flop")} in all, whatever is fused.
      </p>
    </div>
  );
}

export const partitions = (rules: Rules, layer: Layer, machine: Machine) => [
  ...Object.entries(rules.graph.fusions).map(([name, kernels]) => ({ name, kernels })),
  { name: "best", kernels: at(layer.best, machine.memory[L2_DRAM]!) },
];
