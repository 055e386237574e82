/** Links that open a file in a person's own editor; off until this browser is told which one. */

import { useLocalStorage } from "@mantine/hooks";

/** Editors that register an address of their own, each with what it looks like. */
export const EDITORS: Readonly<Record<string, string>> = {
  "VS Code": "vscode://file{path}:{line}",
  VSCodium: "vscodium://file{path}:{line}",
  Cursor: "cursor://file{path}:{line}",
  Zed: "zed://file{path}:{line}",
  "IntelliJ IDEA": "idea://open?file={path}&line={line}",
};

/** Schemes by which a browser would itself read or run what follows. */
const OF_BROWSERS = /^(https?|file|ftp|data|blob|javascript|vbscript|about|view-source|ws|wss):/i;
const ADDRESS = /^[a-z][a-z0-9+.-]*:[^\s{}]*(\{(path|line)\}[^\s{}]*)+$/i;

/** The address that this browser opens files by; empty where it opens none. */
export function useEditor() {
  return useLocalStorage({
    key: "gonogo-editor",
    defaultValue: "",
    getInitialValueInEffect: false,
  });
}

/** Whether an address leads to an editor: it has a scheme of its own, and names the file. */
export function isEditor(template: string): boolean {
  return ADDRESS.test(template) && template.includes("{path}") && !OF_BROWSERS.test(template);
}

/** The link to a line of a file; none where no editor was chosen. A file's name may be anything. */
export function editorLink(template: string, path: string, line: number): string | undefined {
  if (!isEditor(template)) {
    return undefined;
  }
  const safe = path.split("/").map(encodeURIComponent).join("/");
  const parts: Record<string, string> = { "{path}": safe, "{line}": String(line) };
  return template.replace(/\{(path|line)\}/g, (field) => parts[field] ?? field);
}

/** The line of the new text at which a unified diff begins to differ; the first without a diff. */
export function firstLine(diff = ""): number {
  const found = /^@@ [^+]*\+(\d+)[^\n]*\n((?: [^\n]*\n)*)/m.exec(diff);
  const before = found?.[2]?.split("\n").length ?? 1;
  return Math.max(1, Number(found?.[1] ?? 1) + before - 1);
}
