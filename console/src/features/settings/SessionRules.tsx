import { Button, Group, Stack, Text, Textarea } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import {
  addRule,
  listRulesOptions,
  listRulesQueryKey,
  removeRule,
  type SessionRuleView,
} from "@/shared/api";
import { useMay } from "@/shared/me";
import { Confirm, Failure, visible, When } from "@/shared/ui";
import { Permitted } from "./Permitted";
import { RuleCard } from "./RuleCard";
import { NoRule, readRule } from "./ruleText";
import { SessionPick, usePicked } from "./SessionPick";

/** The rules that hold in one session alone. */
export function SessionRules() {
  const { t } = useTranslation();
  const [sessionId] = usePicked();
  return (
    <Stack>
      <SessionPick />
      {sessionId === undefined ? (
        <Text>{t("settings.session.choose")}</Text>
      ) : (
        <RulesOf key={sessionId} sessionId={sessionId} />
      )}
    </Stack>
  );
}

function RulesOf({ sessionId }: { sessionId: string }) {
  const { t } = useTranslation();
  const path = { session_id: sessionId };
  const queries = useQueryClient();
  const query = useQuery(listRulesOptions({ path }));
  const mayWrite = useMay("operator");
  const [removed, setRemoved] = useState<SessionRuleView>();
  const refresh = () => queries.invalidateQueries({ queryKey: listRulesQueryKey({ path }) });
  const removal = useMutation({
    mutationFn: (rule_id: string) => removeRule({ path: { ...path, rule_id } }),
    onSuccess: async () => {
      await refresh();
      setRemoved(undefined);
    },
  });

  function ask(rule: SessionRuleView): void {
    removal.reset();
    setRemoved(rule);
  }

  return (
    <Permitted query={query}>
      {({ rules }) => (
        <Stack gap="sm">
          {rules.length === 0 && <Text>{t("settings.session.none")}</Text>}
          {rules.map((rule) => (
            <RuleCard
              key={rule.rule_id}
              name={rule.name}
              rule={rule.rule}
              told={
                <>
                  {t("settings.session.made", { who: visible(rule.made_by) })},{" "}
                  <When moment={rule.created_at} span />
                </>
              }
              action={
                mayWrite && (
                  <Button
                    size="compact-sm"
                    variant="default"
                    aria-label={`${t("common.remove")} ${rule.name}`}
                    onClick={() => ask(rule)}
                  >
                    {t("common.remove")}
                  </Button>
                )
              }
            />
          ))}
          {mayWrite && <NewRule sessionId={sessionId} onAdded={refresh} />}
          <Confirm
            question={removed && t("settings.session.removeSure", { name: removed.name })}
            action={t("common.remove")}
            error={removal.error}
            isPending={removal.isPending}
            onConfirm={() => removed && removal.mutate(removed.rule_id)}
            onClose={() => setRemoved(undefined)}
          />
        </Stack>
      )}
    </Permitted>
  );
}

/** A field for a rule. What was typed stays until the server has taken it. */
function NewRule({ sessionId, onAdded }: { sessionId: string; onAdded: () => void }) {
  const { t } = useTranslation();
  const [text, setText] = useState("");
  const { mutate, error, isPending } = useMutation({
    mutationFn: async () =>
      addRule({ path: { session_id: sessionId }, body: { rule: readRule(text) } }),
    onSuccess: () => {
      setText("");
      onAdded();
    },
  });
  const misread =
    error instanceof NoRule
      ? t("settings.session.line", { line: error.line, what: error.message })
      : undefined;

  function submit(event: FormEvent): void {
    event.preventDefault();
    mutate();
  }

  return (
    <form onSubmit={submit}>
      <Stack gap="xs">
        <Textarea
          label={t("settings.session.text")}
          description={t("settings.session.hint")}
          error={misread}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
          autosize
          minRows={4}
          maxRows={16}
          spellCheck={false}
        />
        {error !== null && misread === undefined && <Failure error={error} />}
        <Group>
          <Button type="submit" loading={isPending} disabled={text.trim() === ""}>
            {t("settings.session.add")}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
