import type { View } from "../types";

export const view: View = {
  id: "wall",
  title: "The wall",
  says: "Operators on the roofline.",
  Component: () => <p>Nothing here yet.</p>,
};
