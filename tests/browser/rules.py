"""The wall's rules of kernels in node: bundled from their source, and asked about sets at once."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

FRONT = Path(__file__).parents[2] / "iosim/lab/front"
_ASK = """
import { build } from "esbuild";
const built = await build({
  stdin: { contents: 'export * from "./src/views/wall/rules.ts"', resolveDir: process.cwd() },
  bundle: true, write: false, format: "esm", target: "es2022",
});
const code = encodeURIComponent(built.outputFiles[0].text);
const { Rules, cost } = await import("data:text/javascript," + code);
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
    graph: dict[str, Any], layer: dict[str, Any], machines: list[dict[str, Any]],
    sets: list[list[int]], partitions: list[list[list[int]]],
) -> dict[str, Any]:  # fmt: skip
    """For each set why it is no kernel, or its cost on each machine; each partition's order."""
    asked = {"graph": graph, "layer": layer, "machines": machines, "sets": sets,
             "partitions": partitions}  # fmt: skip
    done = subprocess.run(
        ["node", "--input-type=module", "-e", _ASK], cwd=FRONT, input=json.dumps(asked),
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found
