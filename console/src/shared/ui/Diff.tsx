import classes from "./Diff.module.css";
import { countBlanks, visible } from "./visible";

const KINDS: Record<string, string | undefined> = {
  "+": classes.added,
  "-": classes.removed,
  "@": classes.place,
};

/**
 * A unified diff. Characters that are not seen are shown as escapes. Long lines are wrapped: what
 * comes late in them is seen too.
 */
export function Diff({ text }: { text: string }) {
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
            {visible(line)}
            {"\n"}
          </span>
        );
      })}
    </pre>
  );
}
