"""The wall's rules of kernels in node: built from their source, and asked about sets at once."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from engine import build

_ASK = """
const { Rules, cost } = await import(process.argv[1]);
let text = "";
for await (const part of process.stdin) text += part;
const { graph, layer, machines, sets, partitions } = JSON.parse(text);
const rules = new Rules(graph);
const answers = sets.map((ops) => {
  const found = rules.judge(ops);
  if (!found.legal) return { why: found.why };
  return { costs: machines.map((m) => cost(layer, m, ops, found.parts)) };
});
const orders = partitions.map((kernels) => rules.order(kernels));
console.log(JSON.stringify({ answers, orders }));
"""


def judged(
    graph: dict[str, Any],
    layer: dict[str, Any],
    machines: list[dict[str, Any]],
    sets: list[list[int]],
    partitions: list[list[list[int]]],
) -> dict[str, Any]:
    """For each set why it is no kernel, or its cost on each machine; each partition's order."""
    asked = {
        "graph": graph,
        "layer": layer,
        "machines": machines,
        "sets": sets,
        "partitions": partitions,
    }
    with tempfile.TemporaryDirectory() as folder:
        bundle = build(Path(folder) / "rules.mjs", "src/views/wall/rules.ts")
        done = subprocess.run(
            ["node", "--input-type=module", "-e", _ASK, bundle.as_uri()],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found
