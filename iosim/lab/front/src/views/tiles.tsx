import type { View } from "../types";

export const view: View = {
  id: "tiles",
  title: "Tiles",
  says: "The plane of tile sizes.",
  Component: () => <p>Nothing here yet.</p>,
};
