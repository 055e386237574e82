/** Says how much a browser loads: first, and if every page is opened. */

import { readdirSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import type { Plugin } from "vite";

const NAMED = /(?:src|href)="\/?(assets\/[^"]+\.(?:js|css))"/g;

/** Told after each build, compressed as the server sends it. */
export function size(folder: string): Plugin {
  const weigh = (name: string) => gzipSync(readFileSync(`${folder}/${name}`)).length / 1024;
  return {
    name: "size",
    apply: "build",
    closeBundle() {
      const page = readFileSync(`${folder}/index.html`, "utf8");
      const first = [...page.matchAll(NAMED)].flatMap(([, name]) => name ?? []);
      const all = readdirSync(`${folder}/assets`).map((name) => `assets/${name}`);
      const told = [first, all].map((names) =>
        names.reduce((sum, name) => sum + weigh(name), 0).toFixed(0),
      );
      console.info(`first load ${told[0]} KiB gzip, all pages ${told[1]} KiB gzip`);
    },
  };
}
