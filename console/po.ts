/** Reads a gettext catalogue: `import texts from "….po"` is its texts of why something is refused. */

import { readFileSync } from "node:fs";
import type { Plugin } from "vite";

const CONTEXT = "reason";
const ENTRY = /^msgctxt "(.*)"\nmsgid ((?:".*"\n)+)msgstr ((?:".*"\n?)+)/gm;

/** The server's own catalogue, so that what it refuses is said in one way everywhere. */
export function po(): Plugin {
  return {
    name: "po",
    load(id) {
      if (!id.endsWith(".po")) {
        return undefined;
      }
      this.addWatchFile(id);
      const texts = Object.fromEntries(entriesOf(readFileSync(id, "utf8")));
      return { code: `export default ${JSON.stringify(texts)}`, map: null };
    },
  };
}

function entriesOf(catalogue: string): [string, string][] {
  const found = [...catalogue.matchAll(ENTRY)].filter(([, context]) => context === CONTEXT);
  return found.map(([, , id = "", text = ""]) => [joined(id), joined(text)]);
}

/** A string of the catalogue, which may stand on several lines. */
function joined(quoted: string): string {
  const lines = quoted.trim().split("\n");
  return lines.map((line) => JSON.parse(line) as string).join("");
}
