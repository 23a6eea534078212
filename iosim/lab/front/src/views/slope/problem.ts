// A problem that is typed: the schedules that solve it, and what formulas are told of it.
import { searchable, type Env, type ProgramData, type Searchable } from "../../engine";
import { formOf, programOf, sizesOf, type Family } from "../../forms/family";
import { undivided, type Given } from "../../forms/given";
import type { LabData } from "../../types";
import { say } from "../../ui/numbers";
import type { OwnData, SlopeData } from "./data";

export const SIZES = ["N", "d", "heads"] as const;

export interface Member { name: string; program: Searchable; sizes: Env }

export interface Problem {
  sizes: Record<(typeof SIZES)[number], number>;
  members: Member[];
  lacks: Record<string, string>; // schedules that don't solve it, and why
  options: string[]; // those that are given, as Python names them
  says: string;
  env: Env; // of formulas
}
export interface Wrong { field: string; message: string }

// The fields of the view and the options of its schedules; without the programs of Watch there are none.
export function familyOf(data: SlopeData, lab: LabData): Family {
  const { own } = data;
  const watch = lab.views.watch as Family | undefined;
  const schedules = (watch?.schedules ?? []).filter((x) => data.schedules.some((y) => y.name === x.name));
  if (!watch || !schedules.length) {
    const fields = Object.fromEntries(SIZES.map((x) => [x, own.fields[x]!]));
    return { fields, says: {}, masks: {}, options: {}, schedules: [], packed: "" };
  }
  const taken = new Set(schedules.flatMap((x) => x.options));
  const options = Object.fromEntries(Object.entries(watch.options).filter(([x]) => taken.has(x)));
  return { ...watch, fields: own.fields, options, schedules };
}

export function problemOf(data: SlopeData, family: Family, packed: readonly ProgramData[], lab: LabData, given: Given): Problem | Wrong {
  const { typed, options } = given;
  const members: Member[] = [];
  const lacks: Record<string, string> = {};
  for (const { name } of data.schedules) {
    const schedule = family.schedules.find((x) => x.name === name);
    if (!schedule) {
      const program = lab.programs[name] as ProgramData | undefined;
      if (program && searchable(program) && program.sizes.every((x) => x in typed)) members.push({ name, program, sizes: typed });
      else lacks[name] = "this page has no program of it for this problem";
      continue;
    }
    const missing = schedule.needs.filter((x) => !options.has(x));
    const form = missing.length ? `it takes ${missing.join(" and ")} given separately` : formOf(schedule, options);
    if (typeof form === "string") {
      lacks[name] = form.replace(`${name} takes`, "it takes");
      continue;
    }
    const part = undivided(family, schedule, form, typed);
    if (part) return part;
    const program = programOf(form, packed, lab);
    if (searchable(program)) members.push({ name, program, sizes: sizesOf(form, typed) });
  }
  if (!members.length) return { field: "options", message: "No schedule takes these options together." };
  const named = [...options].map((x) => (x === "left" || x === "right" ? "window" : x));
  const sizes = Object.fromEntries(SIZES.map((x) => [x, typed[x]!])) as Problem["sizes"];
  return { sizes, members, lacks, options: [...new Set(named)].sort(), says: saysOf(family, given), env: envOf(data.own, given) };
}

// What a formula may name: an option is 1 where it is given, and of a choice what is not the first.
function envOf({ follows, flags }: OwnData, { typed, options }: Given): Env {
  const followed = Object.entries(follows).filter(([x]) => !options.has(x)).map(([x, of]) => [x, typed[of]!]);
  return { ...typed, ...Object.fromEntries([...followed, ...flags.map((x) => [`given ${x}`, Number(options.has(x))])]) };
}

function saysOf(family: Family, { typed, options, words, mask }: Given): string {
  const gives = family.masks[mask] ?? [];
  const numbers = ["left", "right", ...Object.keys(family.options)]
    .filter((x) => options.has(x)).map((x) => `${x} = ${words[x] ?? say(typed[x]!)}`);
  return [...(gives.length ? [mask] : []), ...numbers].join(", ");
}
