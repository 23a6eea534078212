// What `iosim.lab.data.hardware` gives the view.
import { unpack, type Packed, type Row } from "./packed";

export interface Machine {
  device: string;
  l2_bytes: number;
  multiprocessors: number;
}

export interface Column {
  says: string;
  unit: string;
  boundary: string;
}

export interface Series {
  x: string;
  y: string;
  says: string;
  where: readonly [column: string, value: boolean] | null;
  bars: readonly [least: string, most: string] | null;
  plus: string | null; // a column that is added to y
}

export interface Points {
  says: string;
  across: string;
  up: string;
  unit: string;
  series: readonly Series[];
}

export interface HardwareRecord {
  machine: string;
  name: string;
  report: string;
  says: string;
  summary: string;
  good: boolean;
  provenance: Readonly<Record<string, string>>;
  points: readonly Points[];
  rows: number;
  table: Packed;
  tensors: Packed;
}

export interface Shape {
  N: number;
  d: number;
  swept: number; // bytes that each item sweeps
  own: number; // bytes that are read beside these, once
  blocks: number; // of a sweep
  B_c: number;
}

export interface Run {
  machine: string;
  record: number;
  row: number;
  every: number;
}

export interface DriftData {
  share: number; // of L2, for what all programs sweep
  pieces: number;
  recorded_pieces: number;
  tick_ns: number;
  pace: number;
  most_drift: number;
  shapes: readonly Shape[];
  runs: readonly Run[];
  sweeps: readonly { run: number; items: number; clock: string }[];
}

export interface HardwareData {
  machines: Readonly<Record<string, Machine>>;
  boundaries: Readonly<Record<string, { load: string; store: string }>>;
  columns: Readonly<Record<string, Column>>;
  pairs: readonly { says: string; boundary: string; load: string; store: string }[];
  records: readonly HardwareRecord[];
  drift: DriftData;
}

// Rows of a record, unpacked once.
const KEPT = new WeakMap<HardwareRecord, { rows?: Row[]; tensors?: Row[] }>();

export function rowsOf(data: HardwareData, at: number): Row[] {
  const record = data.records[at]!;
  const kept = KEPT.get(record) ?? {};
  KEPT.set(record, kept);
  return (kept.rows ??= unpack(record.table, record.rows, (k) => rowsOf(data, k)));
}

// Of each row what its tensors move; none where rows are not of jobs.
export function tensorsOf(data: HardwareData, at: number): Row[] {
  const record = data.records[at]!;
  const kept = KEPT.get(record) ?? {};
  KEPT.set(record, kept);
  const count = Object.keys(record.tensors).length ? record.rows : 0;
  return (kept.tensors ??= unpack(record.tensors, count, (k) => tensorsOf(data, k)));
}
