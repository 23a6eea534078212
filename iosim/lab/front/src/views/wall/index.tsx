// The wall: what of a layer is under a machine's ridge, and what fusing its operators saves.
import { useMemo } from "preact/hooks";
import type { View, ViewProps } from "../../types";
import { Select } from "../../ui";
import type { WallData } from "./data";
import { edges as edgesOf } from "./edges";
import { Fusing, partitions, useCosts } from "./fusing";
import { MachineSlider, Sources } from "./machine";
import { Roofline } from "./roofline";
import { cost, Rules, type Kernel } from "./rules";
import "./wall.css";

const PHASES: Record<string, string> = {
  training: "training, forward and backward",
  prefill: "prefill",
  decode: "decoding, one token",
};
const START = { model: "bert-large", phase: "training", batch: "8", gpu: "h100", points: "operators", kernels: "none" };

function Wall({ data, params, setParams }: ViewProps<WallData>) {
  const asked = { ...START, ...params };
  const wrong: string[] = [];
  const pick = <T,>(what: string, all: readonly T[], is: (x: T) => boolean, given: string | undefined, says: (x: T) => string): T => {
    const found = all.find(is);
    if (!found && given) wrong.push(`the link’s ${what} ${JSON.stringify(given)} is not one of ${all.map(says).join(", ")}`);
    return found ?? all[0]!;
  };
  const model = pick("model", data.models, (m) => m.name === asked.model, params.model, (m) => m.name);
  const machine = pick("machine", data.machines, (m) => m.name === asked.gpu, params.gpu, (m) => m.name);
  const phases = data.graphs.filter((g) => g.model === model.name);
  const graph = pick("phase", phases, (g) => g.phase === asked.phase, params.phase, (g) => g.phase);
  const layers = data.layers.filter((x) => data.graphs[x.graph] === graph);
  const layer = pick("batch", layers, (x) => String(x.batch) === asked.batch, params.batch, (x) => String(x.batch));

  const rules = useMemo(() => new Rules(graph), [graph]);
  const edges = useMemo(() => edgesOf(rules), [rules]);
  const known = useMemo(() => partitions(rules, layer, machine), [rules, layer, machine]);
  const kernels = useMemo((): readonly Kernel[] | undefined => {
    const named = known.find((x) => x.name === asked.kernels);
    return named?.kernels ?? rules.read(asked.kernels);
  }, [rules, known, asked.kernels]);
  if (!kernels) wrong.push("the link’s kernels are not kernels of this layer");
  const shown = kernels ?? known[0]!.kernels;

  const of = useCosts(rules, layer, machine);
  const points = asked.points === "kernels" ? shown : graph.operators.map((_, k) => [k]);
  const items = points.map((ops) => ({
    name: rules.names(ops),
    short: ops.length > 2 ? `${rules.names(ops.slice(0, 1))} + ${ops.length - 1} more` : rules.names(ops),
    class: classOf(ops.map((k) => graph.operators[k]!.class)),
    cost: of(ops),
  }));
  const range = useMemo(() => spans(data, rules, layer), [data, rules, layer]);

  const open = (changes: { model?: string; phase?: string }) => {
    const next = { model: model.name, phase: graph.phase, ...changes };
    const there = data.graphs.filter((g) => g.model === next.model);
    const to = there.find((g) => g.phase === next.phase) ?? there[0]!;
    const batches = data.layers.filter((x) => data.graphs[x.graph] === to).map((x) => x.batch);
    const batch = batches.includes(layer.batch) ? layer.batch : batches.at(-1)!;
    setParams({ model: to.model, phase: to.phase, batch: String(batch), kernels: undefined });
  };
  return (
    <div class="wall">
      <div class="controls wall-controls">
        <Select label="Model" value={model.name} onChange={(name) => open({ model: name })}
          options={data.models.map((m) => ({ value: m.name, label: m.title }))} />
        <Select label="Phase" value={graph.phase} onChange={(phase) => open({ phase })}
          options={Object.entries(PHASES).map(([value, label]) => ({ value, label, disabled: !phases.some((g) => g.phase === value) }))} />
        <Select label="Batch" value={String(layer.batch)} onChange={(batch) => setParams({ batch })} options={layers.map((x) => String(x.batch))} />
        <Select label="Points" value={points === shown ? "kernels" : "operators"} onChange={(value) => setParams({ points: value })}
          options={[{ value: "operators", label: "operators, one by one" }, { value: "kernels", label: "kernels, as fused below" }]} />
        <MachineSlider machines={data.machines} machine={machine} onChange={(gpu) => setParams({ gpu })} />
      </div>
      {wrong.length > 0 && <p class="wrong" role="alert">In this link, {wrong.join("; ")}. What is shown is the first of them.</p>}
      <Roofline items={items} machine={machine} machines={data.machines} of={points === shown ? "kernels" : "operators"} range={range} />
      <p class="hint">
        One of the {model.layers} layers of {model.title}, N = {model.N} tokens of context, 16-bit words; bytes at L2↔DRAM, with
        M = what the {machine.cache} of {machine.title} holds.
      </p>
      <Sources machine={machine} />
      <Fusing key={`${graph.model} ${graph.phase}`} {...{ rules, layer, machine, edges, known }} says={data.fusions} kernels={shown}
        onKernels={(next) => setParams({ kernels: rules.written(next) })} onKnown={(name) => setParams({ kernels: name })} />
    </div>
  );
}

// A kernel is of the first class that one of its operators has.
const ORDER = ["contraction", "normalisation", "elementwise"];
const classOf = (classes: string[]) => ORDER.find((x) => classes.includes(x)) ?? classes[0]!;

// The plot's spans are those of all machines, so that the roof moves and the axes stay.
function spans(data: WallData, rules: Rules, layer: WallData["layers"][number]) {
  const x = data.machines.map((m) => m.ridge);
  const y = data.machines.flatMap((m) => m.limits.filter((l) => l.of === "products").map((l) => l.per_s!));
  for (const m of data.machines)
    rules.graph.operators.forEach((_, k) => {
      const { intensity, flop, seconds } = cost(layer, m, [k], [k]);
      if (!flop || !Number.isFinite(intensity)) return;
      x.push(intensity);
      y.push(flop / seconds);
    });
  const around = (v: number[]): [number, number] => [Math.min(...v) / 2.5, Math.max(...v) * 2.5];
  return { x: around(x), y: around(y) };
}

export const view: View<WallData> = {
  id: "wall",
  title: "The wall",
  says: "A layer’s operators under a machine’s roof, and what fusing them saves at L2↔DRAM.",
  Component: Wall,
  keys: [
    ["Arrows, Home, End", "on the graph: to another edge"],
    ["Enter or Space", "on an edge: fuse its two ends, or cut"],
  ],
};
