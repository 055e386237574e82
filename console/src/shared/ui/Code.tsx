import { Box } from "@mantine/core";
import classes from "./Code.module.css";
import { countBlanks, visible } from "./visible";

/**
 * Text as it is, with a width of its own; what is not seen is shown as escapes, and blanks that
 * would push the rest out of sight are counted.
 *
 * @param isWhole Of any height: what is decided about does not scroll away in a frame.
 */
export function Code({ text, isWhole = false }: { text: string; isWhole?: boolean }) {
  return (
    <Box component="pre" className={classes.code} data-whole={isWhole || undefined} tabIndex={0}>
      {countBlanks(visible(text))}
    </Box>
  );
}

/** Any JSON, readable. */
export function Json({ value, isWhole }: { value: unknown; isWhole?: boolean }) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return <Code text={text} isWhole={isWhole} />;
}
