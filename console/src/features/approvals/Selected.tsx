import { Button, Card, Group, Modal, Stack, Text, Textarea } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { ApprovalView } from "@/shared/api";
import { Failure, visible } from "@/shared/ui";
import { AskedFor } from "./AskedFor";
import { linesOf } from "./lines";
import { Outcomes } from "./Outcomes";
import { useDecisions, type Word } from "./useDecisions";

/** Several questions at once: each is shown once more before it is answered. */
export function Selected({
  approvals,
  onClear,
}: {
  approvals: readonly ApprovalView[];
  onClear: () => void;
}) {
  const { t } = useTranslation();
  const [word, setWord] = useState<Word>();
  const [feedback, setFeedback] = useState("");
  const { mutate, isPending, error, data } = useDecisions();

  function answer(decision: Word): void {
    mutate(
      { approvals, ruling: { decision, feedback: feedback.trim() || undefined } },
      {
        onSuccess: (answers) => {
          setWord(undefined);
          if (answers.every(({ ok }) => ok)) {
            setFeedback("");
            onClear();
          }
        },
      },
    );
  }

  return (
    <>
      {data !== undefined && <Outcomes answers={data} />}
      {approvals.length > 0 && (
        <Card withBorder padding="xs">
          <Group gap="xs">
            <Text size="sm">{t("approvals.selected", { number: approvals.length })}</Text>
            <Button size="xs" onClick={() => setWord("approve")}>
              {t("approvals.approveSelected")}
            </Button>
            <Button size="xs" color="red" variant="outline" onClick={() => setWord("reject")}>
              {t("approvals.rejectSelected")}
            </Button>
            <Button size="xs" variant="subtle" onClick={onClear}>
              {t("approvals.clear")}
            </Button>
          </Group>
        </Card>
      )}
      <Modal
        size="xl"
        opened={word !== undefined}
        onClose={() => setWord(undefined)}
        title={t(word === "reject" ? "approvals.rejectSelected" : "approvals.approveSelected")}
      >
        <Stack gap="sm">
          {linesOf(approvals).map(({ key, first, all }) => (
            <div key={key}>
              <Text size="sm" fw={600}>
                {visible(first.tool_name ?? first.subject)}
                {all.length > 1 && ` · ${t("approvals.identical", { count: all.length })}`}
              </Text>
              <AskedFor approval={first} />
            </div>
          ))}
          <Textarea
            label={t("approvals.feedback")}
            autosize
            value={feedback}
            onChange={(event) => setFeedback(event.currentTarget.value)}
          />
          {error !== null && <Failure error={error} />}
          {word !== undefined && (
            <Button
              color={word === "reject" ? "red" : undefined}
              loading={isPending}
              onClick={() => answer(word)}
            >
              {t(word === "reject" ? "approvals.reject" : "approvals.word.tool")}
              {` (${approvals.length})`}
            </Button>
          )}
        </Stack>
      </Modal>
    </>
  );
}
