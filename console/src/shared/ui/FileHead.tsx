import { Badge, Group, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { visible } from "./visible";

const COLORS = { added: "indigo", deleted: "red", modified: "gray", unknown: "yellow" } as const;

/** A changed file's name, what became of it, and what else there is to say beside that. */
export function FileHead({
  path,
  status,
  children,
}: {
  path: string;
  status: keyof typeof COLORS;
  children?: ReactNode;
}) {
  const { t } = useTranslation();
  return (
    <Group gap="xs" mb={4}>
      <Text ff="monospace" size="sm" style={{ overflowWrap: "anywhere" }}>
        {visible(path)}
      </Text>
      <Badge variant="light" color={COLORS[status]}>
        {t(`changes.${status}`)}
      </Badge>
      {children}
    </Group>
  );
}
