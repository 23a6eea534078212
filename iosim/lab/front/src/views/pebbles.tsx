import type { View } from "../types";

export const view: View = {
  id: "pebbles",
  title: "Pebbles",
  says: "The red-blue pebble game.",
  Component: () => <p>Nothing here yet.</p>,
};
