import type { View } from "../types";

export const view: View = {
  id: "hardware",
  title: "Hardware",
  says: "Recorded counters beside the model.",
  Component: () => <p>Nothing here yet.</p>,
};
