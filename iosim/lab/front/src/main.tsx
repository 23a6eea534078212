// Where the lab is put: into a page that has its data in a script, or into a notebook's cell.
import { render as draw } from "preact";
import { App } from "./app";
import "./lab.css";

export function mount(host: HTMLElement, data: unknown, page = false): () => void {
  host.replaceChildren();
  draw(<App given={data} page={page} />, host);
  return () => draw(null, host);
}

// What an anywidget calls; the model's trait `data` is what the page has in its script.
interface Model {
  get(name: string): unknown;
  on(event: string, call: () => void): void;
  off(event: string, call: () => void): void;
}

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const show = () => draw(<App given={model.get("data")} page={false} />, el);
  show();
  model.on("change:data", show);
  return () => {
    model.off("change:data", show);
    draw(null, el);
  };
}

export default { render };

function written(): unknown {
  const text = document.getElementById("iosim-lab-data")?.textContent ?? "";
  try {
    return JSON.parse(text);
  } catch (error) {
    return error;
  }
}

const host = document.getElementById("iosim-lab-page");
if (host) mount(host, written(), true);
