// Controls with names: buttons, choices, typed numbers with their message beside them, sliders.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { parseWhole, say, wrongWhole } from "./numbers";

// Ids are unique in a document that may hold several bundles.
const PREFIX = `iosim-${Math.random().toString(36).slice(2, 8)}`;
let made = 0;
export function useName(): string {
  const name = useRef("");
  return (name.current ||= `${PREFIX}-${++made}`);
}

interface ButtonProps {
  onClick: () => void;
  children: ComponentChildren;
  label?: string; // for screen readers, where the text is a sign
  pressed?: boolean; // of a switch
  disabled?: boolean;
  title?: string;
  class?: string;
}

export function Button({ onClick, children, label, pressed, disabled, title, class: extra }: ButtonProps) {
  return (
    <button
      type="button"
      class={extra ? `button ${extra}` : "button"}
      onClick={onClick}
      aria-label={label}
      aria-pressed={pressed}
      disabled={disabled}
      title={title ?? label}
    >
      {children}
    </button>
  );
}

type Choice = string | { value: string; label: string; disabled?: boolean };

interface SelectProps {
  label: string;
  value: string;
  options: readonly Choice[];
  onChange: (value: string) => void;
}

export function Select({ label, value, options, onChange }: SelectProps) {
  return (
    <label class="field">
      <span>{label}</span>
      <select value={value} onChange={(e) => onChange(e.currentTarget.value)}>
        {options.map((x) => {
          const one = typeof x === "string" ? { value: x, label: x } : x;
          return (
            <option key={one.value} value={one.value} disabled={one.disabled} selected={one.value === value}>
              {one.label}
            </option>
          );
        })}
      </select>
    </label>
  );
}

interface CheckboxProps {
  label: string;
  value: boolean;
  onChange: (value: boolean) => void;
}

export function Checkbox({ label, value, onChange }: CheckboxProps) {
  return (
    <label class="field">
      <input type="checkbox" checked={value} onChange={(e) => onChange(e.currentTarget.checked)} />
      <span>{label}</span>
    </label>
  );
}

interface TextProps {
  label: string;
  value: string; // the last good one
  check: (text: string) => string | undefined; // what is wrong with it
  onChange: (text: string) => void; // called with good ones only
  wrong?: string; // what is wrong with a good one, as the view finds it
  hint?: string;
  numeric?: boolean;
  width?: string;
}

// What is typed stays in the field; the view sees what is good, and the message is beside it.
export function TextField({ label, value, check, onChange, wrong, hint, numeric, width }: TextProps) {
  const [typed, setTyped] = useState(value);
  const sent = useRef(value);
  useEffect(() => {
    if (value !== sent.current) setTyped((sent.current = value));
  }, [value]);
  const message = check(typed) ?? wrong;
  const name = useName();
  return (
    <div class="field">
      <label for={name}>{label}</label>
      <input
        id={name}
        type="text"
        inputMode={numeric ? "numeric" : undefined}
        autocomplete="off"
        spellcheck={false}
        style={width ? { width } : undefined}
        value={typed}
        aria-invalid={message !== undefined}
        aria-describedby={message || hint ? `${name}-says` : undefined}
        onInput={(e) => {
          const text = e.currentTarget.value;
          setTyped(text);
          if (check(text) !== undefined) return;
          sent.current = text;
          onChange(text);
        }}
      />
      <span id={`${name}-says`} class={message ? "wrong" : "hint"} role={message ? "alert" : undefined}>
        {message ?? hint}
      </span>
    </div>
  );
}

interface NumberProps {
  label: string;
  value: number;
  onChange: (value: number) => void;
  min?: number;
  max?: number;
  check?: (value: number) => string | undefined;
  wrong?: string;
  hint?: string;
}

export function NumberField({ label, value, onChange, min = 1, max = 2 ** 40, check, wrong, hint }: NumberProps) {
  const judge = (text: string) => wrongWhole(label, text, min, max) ?? check?.(parseWhole(text)!);
  // Another way to write the same number is not a change from outside.
  const last = useRef("");
  if (parseWhole(last.current) !== value) last.current = String(value);
  return (
    <TextField
      label={label}
      value={last.current}
      check={judge}
      wrong={wrong}
      hint={hint}
      numeric
      width="9em"
      onChange={(text) => {
        last.current = text;
        onChange(parseWhole(text)!);
      }}
    />
  );
}

interface SliderProps {
  label: string;
  value: number;
  onChange: (value: number) => void;
  min: number;
  max: number;
  step?: number;
  log?: boolean; // equal ways for equal factors
  stops?: readonly number[]; // only these values, in rising order
  text?: string; // how the value is read out
  bare?: boolean; // the label is for screen readers only
}

// Steps of a logarithmic slider: enough that whole numbers are missed only where they are large.
const WAY = 1000;

export function Slider({ label, value, onChange, min, max, step = 1, log, stops, text, bare }: SliderProps) {
  const [low, high] = [Math.log(min), Math.log(max)];
  const scale = stops
    ? { max: stops.length - 1, at: nearest(stops, value), of: (x: number) => stops[x] ?? value }
    : log
      ? {
          max: WAY,
          at: Math.round((WAY * (Math.log(value) - low)) / (high - low)),
          of: (x: number) => Math.round(Math.exp(low + ((high - low) * x) / WAY)),
        }
      : undefined;
  return (
    <label class="field slider">
      <span class={bare ? "unseen" : undefined}>{label}</span>
      <input
        type="range"
        min={scale ? 0 : min}
        max={scale ? scale.max : max}
        step={scale ? 1 : step}
        value={scale ? scale.at : value}
        aria-valuetext={text ?? say(value)}
        onInput={(e) => {
          const x = Number(e.currentTarget.value);
          onChange(scale ? scale.of(x) : x);
        }}
      />
    </label>
  );
}

function nearest(stops: readonly number[], value: number): number {
  let best = 0;
  stops.forEach((x, k) => {
    if (Math.abs(x - value) < Math.abs(stops[best]! - value)) best = k;
  });
  return best;
}

// One number, typed or by slider.
export function Size(props: SliderProps & NumberProps) {
  return (
    <div class="size">
      <NumberField {...props} />
      <Slider {...props} bare label={`${props.label}, slider`} value={Math.min(Math.max(props.value, props.min), props.max)} />
    </div>
  );
}
