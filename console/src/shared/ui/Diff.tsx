import classes from "./Diff.module.css";
import { partsOf } from "./syntax";
import { countBlanks, visible } from "./visible";

const KINDS: Record<string, string | undefined> = {
  "+": classes.added,
  "-": classes.removed,
  "@": classes.place,
};

/**
 * A unified diff. Characters that are not seen are shown as escapes. Long lines are wrapped: what
 * comes late in them is seen too.
 *
 * @param path The file that it is of, by whose language its lines are coloured; else by its head.
 */
export function Diff({ text, path = pathIn(text) }: { text: string; path?: string }) {
  const lines = countBlanks(text.replace(/\n$/, "")).split("\n");
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
    <pre className={classes.diff} tabIndex={0}>
      {lines.map((line, number) => {
        const isHead = line.startsWith("+++") || line.startsWith("---");
        const kind = isHead ? classes.head : KINDS[line.charAt(0)];
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: a line of a text is its place
          <span key={number} className={kind}>
            {isHead || line.startsWith("@") ? visible(line) : <Coloured line={line} path={path} />}
            {"\n"}
          </span>
        );
      })}
    </pre>
  );
}

function Coloured({ line, path }: { line: string; path: string }) {
  return partsOf(visible(line), path).map(({ text, word }, place) =>
    word === undefined ? (
      text
    ) : (
      // biome-ignore lint/suspicious/noArrayIndexKey: a part of a line is its place
      <i key={place} className={classes[word]}>
        {text}
      </i>
    ),
  );
}

/** The file that a diff says it is of. */
function pathIn(text: string): string {
  return /^\+\+\+ (?:b\/)?(.*)$/m.exec(text)?.[1] ?? "";
}
