import type { View } from "../types";

export const view: View = {
  id: "slope",
  title: "Ski-slope",
  says: "Words against M.",
  Component: () => <p>Nothing here yet.</p>,
};
