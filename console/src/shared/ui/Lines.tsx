import { Text } from "@mantine/core";
import classes from "./Diff.module.css";

/** How many lines came and how many went; nothing where nobody counted them. */
export function Lines({ added, removed }: { added?: number; removed?: number }) {
  if (added === undefined || removed === undefined) {
    return null;
  }
  return (
    <Text size="sm" ff="monospace" component="span">
      <span className={classes.added}>+{added}</span>{" "}
      <span className={classes.removed}>−{removed}</span>
    </Text>
  );
}
