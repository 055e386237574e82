import { Badge, Card, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { listToolsOptions } from "@/shared/api";
import { en } from "@/shared/i18n/en/settings";
import { Json, visible } from "@/shared/ui";
import { Permitted } from "./Permitted";
import classes from "./Settings.module.css";

type Known = keyof typeof en.toolClass;

/** The tools that agents may use, and what each does to the world. */
export function Tools() {
  const { t } = useTranslation();
  const query = useQuery(listToolsOptions());
  return (
    <Permitted query={query}>
      {({ tools }) => (
        <Stack gap="sm">
          {tools.map(({ name, description, tool_class, parameters }) => (
            <Card key={name} withBorder padding="sm">
              <Group justify="space-between">
                <Text component="h2" fw={600} ff="monospace" className={classes.words}>
                  {visible(name)}
                </Text>
                <ToolClass name={tool_class} />
              </Group>
              <Text size="sm" my={4} className={classes.words} lang="en" translate="no">
                {visible(description)}
              </Text>
              <details className={classes.folded}>
                <summary>{t("settings.tool.schema")}</summary>
                <Json value={parameters} />
              </details>
            </Card>
          ))}
        </Stack>
      )}
    </Permitted>
  );
}

const COLORS: Record<Known, string> = {
  pure: "gray",
  idempotent: "gray",
  other: "yellow",
  irreversible: "red",
  control: "indigo",
};

function ToolClass({ name }: { name: string }) {
  const { t } = useTranslation();
  const known = name in en.toolClass ? (name as Known) : undefined;
  return (
    <Badge variant="light" tt="none" color={known ? COLORS[known] : "gray"} autoContrast>
      {known ? t(`settings.toolClass.${known}`) : name}
    </Badge>
  );
}
