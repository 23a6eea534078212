// Tables as `iosim.lab.columns` packs them.
export type Value = string | number | boolean | null | readonly Value[];
export type Row = Readonly<Record<string, Value>>;

interface Brief {
  all?: Value; // of every row
  is?: string; // as an earlier column
  like?: number; // as the column of this name in another table
  of?: readonly Value[]; // different values, and which one each row has
  at?: readonly number[];
}
export type Packed = Readonly<Record<string, readonly Value[] | Brief>>;

// The rows; `table` gives the unpacked rows of the table of a number.
export function unpack(packed: Packed, count: number, table: (at: number) => readonly Row[]): Row[] {
  const found: Record<string, readonly Value[]> = {};
  const opened = (name: string, said: Brief): readonly Value[] => {
    if (said.is !== undefined) return found[said.is]!;
    if (said.like !== undefined) return table(said.like).map((row) => row[name]!);
    if (said.at) return said.at.map((k) => said.of![k]!);
    return Array<Value>(count).fill(said.all!);
  };
  for (const [name, said] of Object.entries(packed)) {
    found[name] = isList(said) ? said : opened(name, said);
  }
  const names = Object.keys(found);
  return Array.from({ length: count }, (_, k) =>
    Object.fromEntries(names.map((name) => [name, found[name]![k]!])),
  );
}

const isList = (x: readonly Value[] | Brief): x is readonly Value[] => Array.isArray(x);
