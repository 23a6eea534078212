// Where the lab is put: into a page that has its data in a script, or into a notebook's cell.
import { render as draw } from "preact";
import { App } from "./app";
import { inside } from "./check";
import { asking, type Model } from "./kernel";
import "./lab.css";

// What an anywidget calls; the model's trait `data` is what the page has in its script.
function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const ask = asking(model);
  const show = () => draw(<App given={model.get("data")} page={false} ask={ask} />, el);
  show();
  model.on("change:data", show);
  return () => {
    model.off("change:data", show);
    draw(null, el);
  };
}

export default { render };

const host = document.getElementById("iosim-lab-page");
const data = document.getElementById("iosim-lab-data");
if (host && data) {
  void inside(data.textContent ?? "").then((given) => {
    host.replaceChildren();
    draw(<App given={given} page />, host);
  });
}
