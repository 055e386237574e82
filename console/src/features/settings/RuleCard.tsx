import { Badge, Card, Group, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { en } from "@/shared/i18n/en/settings";
import { Code, visible } from "@/shared/ui";
import { type RuleFields, writeRule } from "./ruleText";
import classes from "./Settings.module.css";

type Decision = keyof typeof en.rule.decision;

const COLORS: Record<Decision, string> = { allow: "indigo", ask: "yellow", deny: "red" };

/** A rule: what it says, why, and as it is written. */
export function RuleCard({
  name,
  rule,
  told,
  action,
}: {
  name: string;
  rule: RuleFields;
  /** Where it stands, or who made it. */
  told: ReactNode;
  action?: ReactNode;
}) {
  const { t } = useTranslation();
  const tried = [rule.match, rule.not_match].flat().filter(Boolean).length;
  return (
    <Card withBorder padding="sm">
      <Group justify="space-between" align="flex-start">
        <Group gap="xs">
          <DecisionBadge decision={rule.decision} />
          <Text ff="monospace" size="sm" fw={600} className={classes.words}>
            {subjectOf(rule) || t("settings.rule.anything")}
          </Text>
        </Group>
        {action}
      </Group>
      {typeof rule.reason === "string" && (
        <Text size="sm" className={classes.words}>
          {visible(rule.reason)}
        </Text>
      )}
      <Text size="xs" c="dimmed" className={classes.words}>
        {name} · {told}
        {tried > 0 && ` · ${t("settings.rule.tried", { count: tried })}`}
      </Text>
      <details className={classes.folded}>
        <summary>{t("settings.rule.examples")}</summary>
        <Code text={writeRule(rule)} />
      </details>
    </Card>
  );
}

/** A decision in a word; its colour only underlines it. */
export function DecisionBadge({ decision }: { decision: unknown }) {
  const { t } = useTranslation();
  const known = Object.keys(en.rule.decision).find((word) => word === decision) as
    | Decision
    | undefined;
  return known ? (
    <Badge variant="light" color={COLORS[known]} autoContrast>
      {t(`settings.rule.decision.${known}`)}
    </Badge>
  ) : null;
}

/** What a rule speaks of, in one line. */
function subjectOf({ tool, command, path, agent, kind }: RuleFields): string {
  const words = [kind, agent, tool, command, path].filter((word) => typeof word === "string");
  return visible(words.join(" · "));
}
