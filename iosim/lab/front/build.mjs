// Writes ../static/lab.js, one ES module for the page and the widget, and ../static/lab.css.
import { build } from "esbuild";

await build({
  entryPoints: { lab: "src/main.tsx" },
  outdir: process.argv[2] ?? "../static",
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022", "chrome111"], // of which the second writes nested styles out for older browsers
  charset: "utf8",
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
});
