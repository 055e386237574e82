import { Badge, Group, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { TFunction } from "i18next";
import { useTranslation } from "react-i18next";
import { listModelsOptions } from "@/shared/api";
import { wordOf } from "@/shared/i18n/words";
import { visible } from "@/shared/ui";
import { Permitted } from "./Permitted";
import classes from "./Settings.module.css";

/** The models that could be used, and the one that is. */
export function Models() {
  const { t } = useTranslation();
  const query = useQuery(listModelsOptions());
  return (
    <Permitted query={query}>
      {({ models }) => (
        <Table>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("settings.model.name")}</Table.Th>
              <Table.Th visibleFrom="sm">{t("settings.model.provider")}</Table.Th>
              <Table.Th>{t("settings.model.state")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {models.map((model) => (
              <Table.Tr key={String(model.name)}>
                <Table.Td className={classes.words}>{visible(String(model.name))}</Table.Td>
                <Table.Td visibleFrom="sm">{visible(String(model.provider))}</Table.Td>
                <Table.Td>
                  <Group gap="xs">
                    <Text size="sm" c={model.configured === true ? undefined : "dimmed"}>
                      {t(
                        model.configured === true ? "settings.model.ready" : "settings.model.noKey",
                      )}
                    </Text>
                    {Array.isArray(model.roles) && (
                      <Text size="sm" className={classes.words}>
                        {visible(model.roles.map((role) => roleText(t, String(role))).join(", "))}
                      </Text>
                    )}
                    {model.default === true && (
                      <Badge variant="light" tt="none">
                        {t("settings.model.inUse")}
                      </Badge>
                    )}
                  </Group>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
    </Permitted>
  );
}

/** What a model is asked for; `fallback:` marks one that is asked when others do not answer. */
function roleText(t: TFunction, role: string): string {
  const name = role.replace(FALLBACK, "");
  const text = wordOf(t, "modelRole", name);
  return name === role ? text : t("settings.model.fallback", { role: text });
}

const FALLBACK = /^fallback:/;
