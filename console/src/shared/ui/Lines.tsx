import { Text } from "@mantine/core";
import classes from "./Diff.module.css";

/** How many lines came and how many went; nothing where nobody counted them. */
export function Lines({ added, removed }: { added?: number; removed?: number }) {
  if (added === undefined || removed === undefined) {
    return null;
  }
  return (
    <Text size="sm" ff="monospace" component="span">
      <span className={added > 0 ? classes.added : undefined}>+{added}</span>{" "}
      <span className={removed > 0 ? classes.removed : undefined}>−{removed}</span>
    </Text>
  );
}
