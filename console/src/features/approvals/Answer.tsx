import { Button, Checkbox, Group, Select, Stack, Text, Textarea } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { Link } from "react-router";
import type { ApprovalView } from "@/shared/api";
import { OnlyLooks, useMay } from "@/shared/me";
import { RejectPlan } from "@/shared/RejectPlan";
import { Code, Failure, visible } from "@/shared/ui";
import type { Draft } from "./drafts";
import { EditArguments } from "./EditArguments";
import { changesOf, draftOf, editOf, type Matter, matterOf, modelsOf } from "./matter";
import { Outcomes } from "./Outcomes";
import { useDecisions, type Word } from "./useDecisions";

/** Where a question is answered. What was typed stays until it is taken, and when it is too late. */
export function Answer({
  approval,
  same,
  draft,
  onDraft,
  onDone,
}: {
  approval: ApprovalView;
  same: readonly ApprovalView[];
  draft: Draft;
  onDraft: (changes: Partial<Draft>) => void;
  onDone?: (answered: readonly string[]) => void;
}) {
  const { t } = useTranslation();
  const [isRejecting, setRejecting] = useState(false);
  const { mutate, isPending, error, data } = useDecisions();
  const matter = matterOf(approval);
  const edit = editOf(approval);
  const mayAnswer = useMay("operator");
  const isOpen = approval.status === "pending" && mayAnswer;
  const asked = draft.isAlone ? [approval] : same;
  const changes = draft.edit === undefined ? undefined : changesOf(matter, draft.edit);

  function answer(decision: Word): void {
    const ruling = {
      decision,
      feedback: draft.feedback.trim() || undefined,
      modified_arguments: decision === "edit" ? changes : undefined,
      for_session: (decision === "approve" && draft.longer === "session") || undefined,
      for_plan: (decision === "approve" && draft.longer === "plan") || undefined,
    };
    mutate(
      { approvals: decision === "edit" || draft.longer ? [approval] : asked, ruling },
      {
        onSuccess: (answers) => {
          if (answers.every(({ ok }) => ok)) {
            onDraft({ feedback: "", edit: undefined, longer: undefined });
            onDone?.(answers.map(({ id }) => id));
          }
        },
      },
    );
  }

  const isTyped = draft.feedback !== "" || draft.edit !== undefined;
  return (
    <Stack gap="sm">
      {error !== null && <Failure error={error} />}
      {data !== undefined && <Outcomes answers={data} />}
      {approval.status === "pending" && <OnlyLooks />}
      {isOpen && <Meaning matter={matter} approval={approval} />}
      {(isOpen || isTyped) && (
        <>
          {!isOpen && (
            <Group gap="xs">
              <Text size="sm">{t("approvals.tooLate")}</Text>
              <Button
                size="compact-sm"
                variant="default"
                onClick={() => onDraft({ feedback: "", edit: undefined })}
              >
                {t("approvals.dropEdit")}
              </Button>
            </Group>
          )}
          <Suggestions approval={approval} onTake={(feedback) => onDraft({ feedback })} />
          {draft.edit !== undefined && (
            <Edited
              matter={matter}
              approval={approval}
              text={draft.edit}
              onChange={(edit) => onDraft({ edit })}
            />
          )}
          <Textarea
            label={t(matter === "question" ? "approvals.answer" : "approvals.feedback")}
            autosize
            minRows={1}
            value={draft.feedback}
            onChange={(event) => onDraft({ feedback: event.currentTarget.value })}
            data-feedback
          />
        </>
      )}
      {isOpen && same.length > 1 && draft.edit === undefined && !draft.longer && (
        <Checkbox
          label={t("approvals.all", { count: same.length })}
          checked={!draft.isAlone}
          onChange={(event) => onDraft({ isAlone: !event.currentTarget.checked })}
        />
      )}
      {isOpen && matter === "tool" && draft.edit === undefined && (
        <Longer approval={approval} draft={draft} onDraft={onDraft} />
      )}
      {isOpen && isRejecting && (
        <RejectPlan
          planId={approval.plan_id ?? ""}
          feedback={draft.feedback}
          isPending={isPending}
          onStop={() => answer("reject")}
          onDone={() => {
            setRejecting(false);
            onDraft({ feedback: "" });
          }}
        />
      )}
      {isOpen && !isRejecting && (
        <Group gap="xs">
          {draft.edit === undefined ? (
            <>
              <Button onClick={() => answer("approve")} loading={isPending} data-approve>
                {t(`approvals.word.${matter}`)}
              </Button>
              {edit !== undefined && (
                <Button
                  variant="default"
                  onClick={() => onDraft({ edit: draftOf(approval, matter) })}
                  data-edit
                >
                  {t(`approvals.edit.${edit}`)}
                </Button>
              )}
              {matter === "plan" && (
                <Button
                  variant="default"
                  component={Link}
                  to={`/sessions/${approval.session_id}/plan?edit`}
                >
                  {t("plan.decide.edit")}
                </Button>
              )}
            </>
          ) : (
            <>
              <Button
                onClick={() => answer("edit")}
                loading={isPending}
                disabled={changes === undefined}
              >
                {t("approvals.approveEdited")}
              </Button>
              <Button variant="default" onClick={() => onDraft({ edit: undefined })}>
                {t("approvals.dropEdit")}
              </Button>
            </>
          )}
          <Button
            color="red"
            variant="outline"
            onClick={() => (matter === "plan" ? setRejecting(true) : answer("reject"))}
            loading={isPending}
          >
            {t("approvals.reject")}
          </Button>
        </Group>
      )}
    </Stack>
  );
}

/** What an approval of a call allows besides this once. */
function Longer({
  approval,
  draft,
  onDraft,
}: {
  approval: ApprovalView;
  draft: Draft;
  onDraft: (changes: Partial<Draft>) => void;
}) {
  const { t } = useTranslation();
  const words = approval.details.words_for_plan;
  return (
    <>
      {typeof words === "string" && (
        <Checkbox
          label={t("approvals.forPlan")}
          description={visible(words)}
          checked={draft.longer === "plan"}
          onChange={(event) =>
            onDraft({ longer: event.currentTarget.checked ? "plan" : undefined })
          }
        />
      )}
      <Checkbox
        label={t("approvals.forSession")}
        description={t("approvals.forSessionHint")}
        checked={draft.longer === "session"}
        onChange={(event) =>
          onDraft({ longer: event.currentTarget.checked ? "session" : undefined })
        }
      />
    </>
  );
}

/** What each answer brings about. */
function Meaning({ matter, approval }: { matter: Matter; approval: ApprovalView }) {
  const { t } = useTranslation();
  const subtask = approval.details.subtask as { on_reject?: string } | undefined;
  const means =
    matter === "subtask" && subtask?.on_reject === "fail"
      ? t("approvals.means.subtaskFails")
      : t(`approvals.means.${matter}`);
  return (
    <Text size="sm" c="dimmed">
      {means}
    </Text>
  );
}

/** Answers that the agent itself proposes. */
function Suggestions({
  approval,
  onTake,
}: {
  approval: ApprovalView;
  onTake: (text: string) => void;
}) {
  const { suggestions } = approval.details;
  const texts = Array.isArray(suggestions)
    ? suggestions.filter((one) => typeof one === "string")
    : [];
  return texts.length === 0 ? null : (
    <Group gap="xs">
      {texts.map((text) => (
        <Button key={text} size="compact-sm" variant="default" onClick={() => onTake(text)}>
          {visible(text)}
        </Button>
      ))}
    </Group>
  );
}

/** Where an edit is written. */
function Edited({
  matter,
  approval,
  text,
  onChange,
}: {
  matter: Matter;
  approval: ApprovalView;
  text: string;
  onChange: (text: string) => void;
}) {
  const { t } = useTranslation();
  if (matter === "tool") {
    return <EditArguments tool={approval.tool_name} text={text} onChange={onChange} />;
  }
  if (matter === "model") {
    return (
      <Select
        label={t("approvals.model")}
        description={t("approvals.modelHint")}
        data={modelsOf(approval).map((value) => ({ value, label: visible(value) }))}
        value={text || null}
        onChange={(value) => onChange(value ?? "")}
      />
    );
  }
  return (
    <>
      <Textarea
        label={t(matter === "budget" ? "approvals.limits" : "approvals.result")}
        description={t(matter === "budget" ? "approvals.limitsHint" : "approvals.resultHint")}
        autosize
        minRows={3}
        value={text}
        onChange={(event) => onChange(event.currentTarget.value)}
      />
      {visible(text) !== text && <Code text={text} />}
    </>
  );
}
