// What is seen of the scores, and sizes that are given apart: the fields of a problem's options.
import { useEffect, useState } from "preact/hooks";
import type { ProgramData } from "../engine";
import type { Params } from "../types";
import { Button, Select } from "../ui";
import { unpack, type Family } from "./family";
import type { Given } from "./given";

// The programs that travel packed; undefined until they are there.
export function usePacked(text: string | undefined): readonly ProgramData[] | Error | undefined {
  const [found, setFound] = useState<{ text: string; packed: readonly ProgramData[] | Error }>();
  useEffect(() => {
    if (text === undefined) return;
    let here = true;
    const set = (packed: readonly ProgramData[] | Error) => here && setFound({ text, packed });
    unpack(text).then(set, (error: Error) => set(error));
    return () => {
      here = false;
    };
  }, [text]);
  return found?.text === text ? found?.packed : undefined;
}

interface OptionsProps {
  family: Family;
  given: Given;
  takes: readonly string[]; // the options that have a field
  beside: (option: string) => boolean; // whether one that is no size says something here
  params: Params;
  set: (changes: Record<string, string | undefined>) => void;
  number: (name: string, label?: string) => preact.ComponentChildren; // the field of a number
}

export function Options({ family, given, takes, beside, params, set, number }: OptionsProps) {
  const { options, words, typed } = given;
  const named = Object.keys(family.options).filter((x) => takes.includes(x));
  const apart = named.filter((x) => family.options[x]!.kind === "size");
  // A number or a choice that belongs to a mask is there with the mask.
  const others = named.filter((x) => family.options[x]!.kind !== "size" && beside(x));
  const masks = Object.entries(family.masks).filter(([, gives]) => gives.every((x) => takes.includes(x)));
  return (
    <>
      {masks.length > 1 && (
        <Select
          label="A row sees"
          value={given.mask}
          options={masks.map(([name]) => name)}
          onChange={(mask) => set({ mask: mask === masks[0]![0] ? undefined : mask })}
        />
      )}
      {options.has("left") && number("left", "to the left")}
      {options.has("right") && number("right", "to the right")}
      {others.map((name) => {
        const { kind, choices } = family.options[name]!;
        return kind === "count" ? number(name) : (
          <Select
            key={name}
            label={name}
            value={words[name] ?? choices[0]!}
            options={choices}
            onChange={(x) => set({ [name]: x === choices[0] ? undefined : x })}
          />
        );
      })}
      {apart.length > 0 && (
        <div class="field" role="group" aria-label="Given separately">
          <span>Given separately</span>
          <span class="apart">
            {apart.map((name) => (
              <Button
                key={name}
                pressed={options.has(name)}
                title={family.says[name]}
                onClick={() => set({ [name]: name in params ? undefined : String(typed[family.options[name]!.follows]) })}
              >
                {name}
              </Button>
            ))}
          </span>
        </div>
      )}
      {apart.filter((x) => options.has(x)).map((name) => number(name))}
    </>
  );
}
