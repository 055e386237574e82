import { Badge, Card, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { type AgentView, listAgentsOptions } from "@/shared/api";
import { wordOf } from "@/shared/i18n/words";
import { visible } from "@/shared/ui";
import { Permitted } from "./Permitted";
import classes from "./Settings.module.css";
import { Words } from "./Words";

/** The agents: what each may use and write. */
export function Agents() {
  const query = useQuery(listAgentsOptions());
  return (
    <Permitted query={query}>
      {({ agents }) => (
        <Stack gap="sm">
          {agents.map((agent) => (
            <Agent key={agent.name} agent={agent} />
          ))}
        </Stack>
      )}
    </Permitted>
  );
}

function Agent({ agent }: { agent: AgentView }) {
  const { t } = useTranslation();
  const { name, description, source, tools, may_write } = agent;
  const isBuiltIn = source === "builtin";
  return (
    <Card withBorder padding="sm">
      <Group justify="space-between">
        <Text component="h2" fw={600}>
          {visible(name)}
        </Text>
        <Badge variant="light" color="gray" tt="none">
          {isBuiltIn ? t("settings.agent.builtIn") : t("settings.agent.source", { source })}
        </Badge>
      </Group>
      <Text size="sm" mb="xs" className={classes.words}>
        {isBuiltIn ? wordOf(t, "agent", name, description) : visible(description)}
      </Text>
      <Text size="xs" c="dimmed">
        {t("settings.agent.tools")}
      </Text>
      <Words words={tools} />
      <Text size="xs" c="dimmed" mt="xs">
        {t("settings.agent.mayWrite")}
      </Text>
      <MayWrite globs={may_write} />
    </Card>
  );
}

function MayWrite({ globs }: { globs: readonly string[] }) {
  const { t } = useTranslation();
  if (globs.length === 0) {
    return <Text size="sm">{t("settings.agent.nothing")}</Text>;
  }
  return globs.includes("**") ? (
    <Text size="sm">{t("settings.agent.anything")}</Text>
  ) : (
    <Words words={globs} />
  );
}
