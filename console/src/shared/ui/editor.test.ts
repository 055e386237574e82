import { expect, it } from "vitest";
import { EDITORS, editorLink, firstLine, isEditor } from "./editor";

it("links to the line of a file, whatever the file is called", () => {
  const to = (path: string, template = "vscode://file{path}:{line}") =>
    editorLink(template, path, 7);
  expect(to("/home/ann/a b/ü.py")).toBe("vscode://file/home/ann/a%20b/%C3%BC.py:7");
  expect(to("/code/$&?x=1#{line}")).toBe("vscode://file/code/%24%26%3Fx%3D1%23%7Bline%7D:7");
  expect(to("/code/a.py", "idea://open?file={path}")).toBe("idea://open?file=/code/a.py");
  expect(Object.values(EDITORS).every(isEditor)).toBe(true);
});

it("makes no link where no editor was chosen, or where the browser itself would follow it", () => {
  for (const template of [
    "",
    "code {path}",
    "vscode://file",
    "javascript:alert({line})//{path}",
    "JavaScript:{path}",
    "https://example.org/{path}",
    "data:text/html,{path}",
    "vscode://file{path} {line}",
    "vscode://file{path}{where}",
  ]) {
    expect([template, editorLink(template, "/code/a.py", 1)]).toEqual([template, undefined]);
  }
});

it("finds the first line that differs", () => {
  expect(firstLine("--- a/x\n+++ b/x\n@@ -1,3 +10,4 @@ def f():\n one\n two\n+new\n")).toBe(12);
  expect(firstLine("@@ -1 +1 @@\n-old\n+new\n")).toBe(1);
  expect(firstLine("@@ -1 +0,0 @@\n-old\n")).toBe(1);
  expect(firstLine(undefined)).toBe(1);
});
