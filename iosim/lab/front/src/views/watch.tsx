import type { View } from "../types";

export const view: View = {
  id: "watch",
  title: "Watch",
  says: "A schedule step by step.",
  Component: () => <p>Nothing here yet.</p>,
};
