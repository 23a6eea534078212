// Which curves are drawn: a switch for each, with the curve's own color, dash and sign.
import { useMemo } from "preact/hooks";
import { covers, solving, uncovered, type Bound, type Preset, type SlopeData } from "./data";
import type { Shown } from "./plot";
import { BOUND_DASH, lookOf, ORDER_DASH, UPPER_DASH } from "./style";

// Bounds that are drawn at first: published counts, exact.
export const usual = (data: SlopeData): string[] =>
  data.bounds.filter((b) => b.kind === "upper" && b.strength === "exact").map((b) => b.name);

interface TogglesProps {
  data: SlopeData;
  preset: Preset;
  klass: string;
  shown: Shown;
  onToggle: (name: string) => void;
}

export function LineToggles({ data, preset, klass, shown, onToggle }: TogglesProps) {
  const groups = useMemo(() => groupsOf(data), [data]);
  return (
    <div class="slope-legend">
      <div role="group" aria-label="Schedules">
        {solving(data, preset).map(({ name, title, k }) => {
          const look = lookOf(k);
          return (
            <Toggle key={name} name={name} title={title} on={shown.curves.has(name)} onToggle={onToggle}>
              <line x2={30} stroke={look.color} stroke-dasharray={look.dash} stroke-width={2.4} />
              <path d={look.sign} transform="translate(15,0)" fill={look.color} />
            </Toggle>
          );
        })}
        <Toggle name="bound" says={`largest lower bound, class ${klass}`} title={data.classes[klass] ?? ""} on={shown.largest} onToggle={onToggle}>
          <line x2={30} class="slope-bound" stroke-dasharray={BOUND_DASH} />
        </Toggle>
        {data.bounds.filter((b) => b.kind === "upper" && b.strength === "exact").map((b) => (
          <BoundToggle key={b.name} bound={b} on={shown.bounds.has(b.name)} onToggle={onToggle} says={`published: ${b.name}`} lacks={lackOf(data, preset, b)} />
        ))}
        {Object.keys(preset.runs).length > 0 && <span class="hint">Markers are runs of the real schedules; lines are formulas.</span>}
        <span class="hint">Class {klass}: {data.classes[klass]}.</span>
      </div>
      <details>
        <summary>Bounds one by one</summary>
        {groups.map(({ title, bounds }) => (
          <div key={title} role="group" aria-label={title}>
            <span class="hint">{title}</span>
            {bounds.map((b) => (
              <BoundToggle key={b.name} bound={b} on={shown.bounds.has(b.name)} onToggle={onToggle} lacks={lackOf(data, preset, b) ?? (b.classes.length > 0 && !covers(b, klass) ? "another class" : undefined)} />
            ))}
          </div>
        ))}
      </details>
    </div>
  );
}

function lackOf(data: SlopeData, preset: Preset, bound: Bound): string | undefined {
  const lacks = uncovered(data, preset, bound);
  return lacks.length ? `not with ${lacks.join(" and ")}` : undefined;
}

function groupsOf(data: SlopeData): { title: string; bounds: Bound[] }[] {
  const exact = data.bounds.filter((b) => b.kind === "lower" && b.strength === "exact");
  return [
    { title: "Lower bounds, exact:", bounds: exact },
    { title: "Published orders, without their constants:", bounds: data.bounds.filter((b) => b.strength === "asymptotic") },
  ];
}

interface BoundToggleProps { bound: Bound; on: boolean; onToggle: (name: string) => void; says?: string; lacks?: string | undefined }

function BoundToggle({ bound, on, onToggle, says, lacks }: BoundToggleProps) {
  const [dash, look] = bound.strength === "asymptotic" ? [ORDER_DASH, "slope-lower"]
    : bound.kind === "upper" ? [UPPER_DASH, "slope-upper"] : [BOUND_DASH, "slope-lower"];
  return (
    <Toggle name={bound.name} says={lacks ? `${says ?? bound.name} (${lacks})` : says} title={bound.source} on={on} onToggle={onToggle}>
      <line x2={30} class={bound.strength === "asymptotic" && bound.kind === "upper" ? "slope-upper" : look} stroke-dasharray={dash} />
    </Toggle>
  );
}

interface ToggleProps {
  name: string;
  says?: string;
  title: string;
  on: boolean;
  onToggle: (name: string) => void;
  children: preact.ComponentChildren;
}

function Toggle({ name, says, title, on, onToggle, children }: ToggleProps) {
  return (
    <button type="button" class="slope-toggle" aria-pressed={on} title={title} onClick={() => onToggle(name)}>
      <svg width={30} height={14} viewBox="0 -7 30 14" aria-hidden="true" fill="none">{children}</svg>
      {says ?? name}
    </button>
  );
}
