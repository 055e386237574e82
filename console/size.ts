/** What a browser loads: how much of it comes first, and that no part of the page lacks its styles. */

import { readdirSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import type { Plugin } from "vite";

const NAMED = /(?:src|href)="\/?(assets\/[^"]+\.(?:js|css))"/g;
/** How Mantine names its classes. */
const STYLED = /\bm_[0-9a-f]{6,8}\b/g;
/** KiB that may come before the first page is drawn, compressed as the server sends it. */
const MOST = 240;

/** Told after each build; one that loads too much, or a component without its styles, is no build. */
export function size(folder: string): Plugin {
  const read = (name: string) => readFileSync(`${folder}/${name}`, "utf8");
  return {
    name: "size",
    apply: "build",
    closeBundle() {
      const first = [...read("index.html").matchAll(NAMED)].flatMap(([, name]) => name ?? []);
      const all = readdirSync(`${folder}/assets`).map((name) => `assets/${name}`);
      const begins = weigh(first.map(read));
      const whole = weigh(all.map(read));
      console.info(`first load ${begins} KiB gzip, all pages ${whole} KiB gzip`);
      const bare = unstyled(all, read);
      if (bare.length > 0) {
        throw new Error(`name the styles of these classes in mantine.css: ${bare.join(" ")}`);
      }
      if (begins > MOST) {
        throw new Error(`a browser may load at most ${MOST} KiB before it draws the first page`);
      }
    },
  };
}

function weigh(texts: readonly string[]): number {
  return Math.round(texts.reduce((sum, text) => sum + gzipSync(text).length, 0) / 1024);
}

function unstyled(names: readonly string[], read: (name: string) => string): string[] {
  const classes = (end: string) =>
    new Set(names.filter((name) => name.endsWith(end)).flatMap((name) => read(name).match(STYLED)));
  const styled = classes(".css");
  return [...classes(".js")].filter((name): name is string => !styled.has(name) && name !== null);
}
