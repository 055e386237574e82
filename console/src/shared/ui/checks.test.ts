import { expect, it } from "vitest";
import { checkLine } from "./checks";

it("tells a check in one line, as a plan writes it", () => {
  expect(checkLine({ command: "pytest -q", timeout: 5 })).toBe("command: pytest -q, timeout: 5");
  expect(checkLine({ file_exists: "a.txt" })).toBe("file_exists: a.txt");
  expect(checkLine({ unchanged: ["docs/**", "*.md"] })).toBe('unchanged: ["docs/**","*.md"]');
  expect(checkLine({ file_contains: { path: "a", text: "b" } })).toBe(
    'file_contains: {"path":"a","text":"b"}',
  );
  expect(checkLine({ ask: "Is it polite?", command: undefined })).toBe("ask: Is it polite?");
});
