import { useEffect, useRef } from "react";

/** What each key does on the desk; the same table is shown to people. */
export const KEYS = ["j", "k", "Enter", "x", "a", "e", "r", "?"] as const;

/** Listen to the desk's keys, except where somebody types or a dialog is open. */
export function useKeys(onHelp: () => void): void {
  const help = useRef(onHelp);
  help.current = onHelp;

  useEffect(() => {
    function listen(event: KeyboardEvent): void {
      const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey && !event.repeat;
      if (isPlain && !isTaken(event.target)) {
        const key = keyOf(event);
        const act = key === "?" ? help.current : ACTS[key];
        if (act !== undefined) {
          event.preventDefault();
          act();
        }
      }
    }
    window.addEventListener("keydown", listen);
    return () => window.removeEventListener("keydown", listen);
  }, []);
}

/** What of a key press says which key it is. */
type Press = Pick<KeyboardEvent, "key" | "code" | "shiftKey">;

/**
 * The key that a press means: the letter that a Latin layout types there.
 *
 * Under a Latin layout it is what was typed, so that the table above is true of AZERTY and Dvorak
 * too. Under another, such as the Russian one, it is the letter at the key's place.
 */
export function keyOf({ key, code, shiftKey }: Press): string {
  if (/^[\x20-\x7e]$/.test(key) && !(shiftKey && code === "Slash")) {
    return key;
  }
  if (shiftKey) {
    return code === "Slash" ? "?" : key;
  }
  return /^Key[A-Z]$/.test(code) ? code.slice(3).toLowerCase() : key;
}

const ACTS: Record<string, (() => void) | undefined> = {
  j: () => move(1),
  k: () => move(-1),
  x: () => current()?.querySelector<HTMLInputElement>("input[type=checkbox]")?.click(),
  a: approve,
  e: () => inView("[data-edit]")?.click(),
  r: () => inView("[data-feedback]")?.focus(),
};

/** Whether keys belong to something else: a field, or what lies over the page. */
function isTaken(target: EventTarget | null): boolean {
  const field =
    "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable=true]";
  const isField = target instanceof Element && target.closest(field) !== null;
  const over = [...document.querySelectorAll("[role=dialog], [role=listbox]")];
  return isField || over.some((each) => each.checkVisibility());
}

function lines(): HTMLElement[] {
  const found = [...document.querySelectorAll<HTMLElement>("[data-line]")];
  return found.filter((line) => line.offsetParent !== null);
}

/** The line that has the focus, else the one that is open. */
function current(): HTMLElement | undefined {
  const all = lines();
  return (
    all.find((line) => line.contains(document.activeElement)) ??
    all.find((line) => line.querySelector("[aria-current=true]") !== null)
  );
}

function move(by: number): void {
  const all = lines();
  const line = current();
  const place = line === undefined ? (by > 0 ? 0 : all.length - 1) : all.indexOf(line) + by;
  all[place]?.querySelector("a")?.focus();
}

/**
 * A control of the open question, if what is asked can be seen.
 *
 * Nobody approves by a key what they do not look at: then the key only brings it into view.
 */
function inView(selector: string): HTMLElement | undefined {
  const question = document.querySelector("[data-question]");
  const heading = question?.querySelector("h2");
  const box = heading?.getBoundingClientRect();
  if (heading == null || box === undefined) {
    return undefined;
  }
  if (box.bottom < HEADER || box.top > window.innerHeight) {
    heading.scrollIntoView({ block: "center" });
    return undefined;
  }
  return question?.querySelector<HTMLElement>(selector) ?? undefined;
}

/** Approve the open question once its end is in view; before that, read on as a pager does. */
function approve(): void {
  const button = document.querySelector<HTMLElement>("[data-question] [data-approve]");
  const box = button?.getBoundingClientRect();
  if (button === null || box === undefined) {
    return;
  }
  if (box.bottom > window.innerHeight) {
    if (isPassed() || inView("h2") !== undefined) {
      window.scrollBy({ top: 0.8 * (window.innerHeight - HEADER) });
    }
  } else if (box.top < HEADER) {
    inView("h2");
  } else {
    button.click();
  }
}

/** Whether the open question begins above what is in view. */
function isPassed(): boolean {
  const box = document.querySelector("[data-question] h2")?.getBoundingClientRect();
  return box !== undefined && box.bottom < HEADER;
}

const HEADER = 52;
