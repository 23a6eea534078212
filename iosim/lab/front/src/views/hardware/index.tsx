import { useMemo } from "preact/hooks";
import type { View, ViewProps } from "../../types";
import type { HardwareData } from "./data";
import { Drift } from "./drift";
import "./hardware.css";
import { Records } from "./records";

function Hardware({ data, params, setParams }: ViewProps<HardwareData>) {
  // The table is long: what is set of the drift does not draw it again.
  const { record, points, row } = params;
  const records = useMemo(
    () => <Records data={data} params={params} setParams={setParams} />,
    [data, record, points, row],
  );
  return (
    <>
      <Drift data={data} params={params} setParams={setParams} />
      {records}
    </>
  );
}

export const view: View<HardwareData> = {
  id: "hardware",
  title: "Hardware",
  says: "Counters and the model: equal at SM↔L2; at L2↔DRAM where programs stay in lockstep.",
  Component: Hardware,
  keys: [
    ["Arrows, Page Up and Down, Home, End", "in the table of a record: to another row or column's head"],
    ["Enter or Space", "on a row: show its tensors; on a head: sort by it"],
  ],
};
