import { Box } from "@mantine/core";
import classes from "./Code.module.css";
import { visible } from "./visible";

/** Text as it is, with a width of its own; what is not seen is shown as escapes. */
export function Code({ text }: { text: string }) {
  return (
    <Box component="pre" className={classes.code} tabIndex={0}>
      {visible(text)}
    </Box>
  );
}

/** Any JSON, readable. */
export function Json({ value }: { value: unknown }) {
  return <Code text={typeof value === "string" ? value : JSON.stringify(value, null, 2)} />;
}
