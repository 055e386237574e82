import { Badge, Group } from "@mantine/core";
import { visible } from "@/shared/ui";

/** Names side by side, each as it is written. */
export function Words({ words }: { words: readonly string[] }) {
  return (
    <Group gap={4} component="span">
      {words.map((word) => (
        <Badge
          key={word}
          component="span"
          variant="default"
          radius="sm"
          tt="none"
          fw={400}
          ff="monospace"
          maw="100%"
          title={word}
        >
          {visible(word)}
        </Badge>
      ))}
    </Group>
  );
}
