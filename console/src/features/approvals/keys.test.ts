import { expect, it } from "vitest";
import { KEYS, keyOf } from "./keys";

const press = (key: string, code: string, shiftKey = false) => keyOf({ key, code, shiftKey });

it("takes the key at the same place under the Russian layout", () => {
  const russian = { j: "о", k: "л", x: "ч", a: "ф", e: "у", r: "к" };
  for (const [letter, typed] of Object.entries(russian)) {
    expect(press(typed, `Key${letter.toUpperCase()}`)).toBe(letter);
    expect(KEYS).toContain(letter);
  }
  expect(press("Enter", "Enter")).toBe("Enter");
});

it("finds the help at the key's place, and where the Russian layout types the sign", () => {
  expect(press("?", "Slash", true)).toBe("?");
  expect(press(",", "Slash", true)).toBe("?");
  expect(press("?", "Digit7", true)).toBe("?");
  expect(press("/", "Slash")).toBe("/");
});

it("goes by what a Latin layout types, which is what the table of keys shows", () => {
  expect(press("a", "KeyQ")).toBe("a");
  expect(press("j", "KeyC")).toBe("j");
});

it("takes no letter for a key that is typed with Shift", () => {
  expect(press("A", "KeyA", true)).toBe("A");
  expect(press("Ф", "KeyA", true)).toBe("Ф");
});
