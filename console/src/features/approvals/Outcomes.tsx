import { Alert, List, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { DecisionAnswer } from "@/shared/api";
import { useProblems } from "@/shared/i18n/problems";
import { StatusBadge, visible } from "@/shared/ui";

/** What came of answers that were sent, each by its question. */
export function Outcomes({ answers }: { answers: readonly DecisionAnswer[] }) {
  const isFine = answers.every(({ ok }) => ok);
  return (
    <Alert color={isFine ? "green" : "yellow"} role="status">
      <List size="sm" listStyleType="none">
        {answers.map((answer) => (
          <List.Item key={answer.id}>
            <Outcome answer={answer} isNamed={answers.length > 1} />
          </List.Item>
        ))}
      </List>
    </Alert>
  );
}

function Outcome({ answer, isNamed }: { answer: DecisionAnswer; isNamed: boolean }) {
  const { t } = useTranslation();
  const { textOf } = useProblems();
  const { id, ok, outcome, votes = 0, needed = 1, status = "", detail = "" } = answer;
  return (
    <>
      {isNamed && (
        <Text span size="xs" ff="monospace">
          {id}:{" "}
        </Text>
      )}
      {!ok && visible(textOf({ ...answer, detail }))}
      {ok && outcome === "voted" && t("approvals.outcome.voted", { votes, needed })}
      {ok && outcome === "asked_again" && t("approvals.outcome.asked_again")}
      {ok && outcome === "decided" && (
        <>
          {t("approvals.outcome.decided")} <StatusBadge of="question" status={status} />
        </>
      )}
    </>
  );
}
