// What the page is given, and what a view is.
import type { ComponentType } from "preact";

export interface LabData {
  format: "iosim-lab";
  version: 1;
  iosim: string;
  views: Record<string, unknown>;
  programs: Record<string, unknown>;
  exercises: Record<string, readonly unknown[]>;
}

// What a link may say of a view: `#watch?algo=flash2&N=4096`.
export type Params = Readonly<Record<string, string>>;

export interface ViewProps<D = any> {
  data: D; // the view's own part, lab.views[id]
  lab: LabData;
  exercises: readonly unknown[];
  params: Params; // from the link, and what was set since
  setParams: (changes: Record<string, string | undefined>) => void; // undefined removes
}

export interface View<D = any> {
  id: string;
  title: string;
  says: string; // one line under the title
  Component: ComponentType<ViewProps<D>>;
  keys?: readonly (readonly [key: string, does: string])[]; // for the help panel
}
