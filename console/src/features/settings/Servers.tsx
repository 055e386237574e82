import { Badge, Button, Card, Group, List, Stack, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { acceptTool, listServersOptions, listServersQueryKey, type ServerView } from "@/shared/api";
import { useProblems } from "@/shared/i18n/problems";
import { useMay } from "@/shared/me";
import { Code, Confirm, visible } from "@/shared/ui";
import { Permitted } from "./Permitted";
import classes from "./Settings.module.css";
import { Words } from "./Words";

const COLORS = { ready: "indigo", idle: "gray", failed: "red" } as const;

/** The foreign (MCP) servers: how they are, what they bring, and what of that has changed. */
export function Servers() {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const query = useQuery(listServersOptions());
  const [accepted, setAccepted] = useState<string>();
  const acceptance = useMutation({
    mutationFn: (name: string) => acceptTool({ body: { name } }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: listServersQueryKey() });
      setAccepted(undefined);
    },
  });

  function ask(name: string): void {
    acceptance.reset();
    setAccepted(name);
  }

  return (
    <Permitted query={query}>
      {({ servers }) => (
        <Stack gap="sm">
          {servers.length === 0 && <Text>{t("settings.server.none")}</Text>}
          {servers.map((server) => (
            <Server key={server.name} server={server} onAccept={ask} />
          ))}
          <Confirm
            question={accepted && t("settings.server.acceptSure", { name: visible(accepted) })}
            action={t("settings.server.accept")}
            error={acceptance.error}
            isPending={acceptance.isPending}
            onConfirm={() => accepted && acceptance.mutate(accepted)}
            onClose={() => setAccepted(undefined)}
          />
        </Stack>
      )}
    </Permitted>
  );
}

function Server({ server, onAccept }: { server: ServerView; onAccept: (name: string) => void }) {
  const { t } = useTranslation();
  const { textOf } = useProblems();
  const { name, place, state, error, version, tools, refused = {}, changed = {} } = server;
  const said = (detail: string) => textOf({ detail, ...server.parts?.[detail] });
  return (
    <Card withBorder padding="sm">
      <Group justify="space-between">
        <Text component="h2" fw={600}>
          {visible(name)}
        </Text>
        <Badge variant="light" color={COLORS[state]} autoContrast>
          {t(`settings.server.state.${state}`)}
        </Badge>
      </Group>
      <Text size="sm" mb="xs" className={classes.words}>
        {visible([place, version].filter(Boolean).join(" · "))}
      </Text>
      {error !== undefined && <Code text={said(error)} />}
      <Words words={tools} />
      {Object.entries(changed).map(([tool, differences]) => (
        <Changed key={tool} tool={tool} differences={differences} onAccept={() => onAccept(tool)} />
      ))}
      {Object.keys(refused).length > 0 && (
        <>
          <Text size="xs" c="dimmed" mt="xs">
            {t("settings.server.refused")}
          </Text>
          <List size="sm">
            {Object.entries(refused).map(([tool, why]) => (
              <List.Item key={tool} className={classes.words}>
                {visible(`${tool}: ${said(why)}`)}
              </List.Item>
            ))}
          </List>
        </>
      )}
    </Card>
  );
}

/** A tool that is not as it was accepted. */
function Changed({
  tool,
  differences,
  onAccept,
}: {
  tool: string;
  differences: readonly string[];
  onAccept: () => void;
}) {
  const { t } = useTranslation();
  const mayAccept = useMay("admin");
  return (
    <Stack gap={4} mt="xs">
      <Group justify="space-between">
        <Text size="sm" fw={600} className={classes.words}>
          {t("settings.server.changed", { name: visible(tool) })}
        </Text>
        {mayAccept && (
          <Button
            size="compact-sm"
            variant="default"
            aria-label={`${t("settings.server.accept")} ${visible(tool)}`}
            onClick={onAccept}
          >
            {t("settings.server.accept")}
          </Button>
        )}
      </Group>
      <Code text={differences.join("\n")} />
    </Stack>
  );
}
