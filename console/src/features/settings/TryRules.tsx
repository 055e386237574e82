import { Button, Card, Group, Stack, Text, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import type { TFunction } from "i18next";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { checkCall, type JudgedStep, type Judgement } from "@/shared/api";
import { en } from "@/shared/i18n/en/settings";
import { wordOf } from "@/shared/i18n/words";
import { Code, Failure, visible } from "@/shared/ui";
import { DecisionBadge } from "./RuleCard";
import classes from "./Settings.module.css";

/** What the rules make of a command, and of what that is made. Nothing runs. */
export function TryRules() {
  const { t } = useTranslation();
  const [command, setCommand] = useState("");
  const { mutate, data, error, isPending } = useMutation({
    mutationFn: async (tried: string) =>
      (await checkCall({ body: { command: tried }, throwOnError: true })).data,
  });

  function submit(event: FormEvent): void {
    event.preventDefault();
    mutate(command);
  }

  return (
    <Card withBorder padding="sm">
      <form onSubmit={submit}>
        <Group align="flex-end" gap="xs">
          <TextInput
            label={t("settings.rule.try")}
            description={t("settings.rule.tryHint")}
            value={command}
            onChange={(event) => setCommand(event.currentTarget.value)}
            styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
            spellCheck={false}
            autoComplete="off"
            style={{ flex: "1 1 18rem" }}
          />
          <Button type="submit" loading={isPending} disabled={command.trim() === ""}>
            {t("settings.rule.tryNow")}
          </Button>
        </Group>
      </form>
      <div role="status">
        {error !== null && <Failure error={error} />}
        {data && <Verdict found={data} />}
      </div>
    </Card>
  );
}

function Verdict({ found: { decision, reason, rule, where, steps } }: { found: Judgement }) {
  const { t } = useTranslation();
  return (
    <Stack gap={4} mt="sm">
      <Group gap="xs">
        <DecisionBadge decision={decision} />
        <Text size="sm" className={classes.words}>
          {visible(reason)}
        </Text>
      </Group>
      <Text size="xs" c="dimmed" ff="monospace" className={classes.words}>
        {visible([wordOf(t, "rule", rule), ...where].join(" · "))}
      </Text>
      <details className={classes.folded}>
        <summary>{t("settings.rule.steps")}</summary>
        <Code text={steps.map((step) => stepLines(step, t)).join("\n")} />
      </details>
    </Stack>
  );
}

type Stage = keyof typeof en.rule.stage;
type Decision = keyof typeof en.rule.decision;

function stepLines({ step, part, decided, considered }: JudgedStep, t: TFunction): string {
  const stage = step in en.rule.stage ? t(`settings.rule.stage.${step as Stage}`) : step;
  const verdict = decided ? t(`settings.rule.decision.${decided as Decision}`) : "—";
  const head = `${stage}${part === undefined ? "" : ` (${part})`}: ${verdict}`;
  const looks = considered.map(({ rule, where, matched, why }) =>
    ["   ", wordOf(t, "rule", rule), where, matched ? "✓" : why].filter(Boolean).join(" "),
  );
  return [head, ...looks].join("\n");
}
