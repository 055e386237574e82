import { Alert, Button, Card, Group, Stack, Switch, Text, Textarea } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { decidePlan, type PlanAnswer, type PlanView } from "@/shared/api";
import { OnlyLooks, useMay } from "@/shared/me";
import { RejectPlan } from "@/shared/RejectPlan";
import { Changes } from "./Changes";
import { Editor } from "./Editor";
import { Grants } from "./Grants";
import { Refusal } from "./Refusal";
import { useDiff } from "./Revisions";
import { useQuestion } from "./useQuestion";
import { useSteer } from "./useSteer";

interface Asked {
  plan: PlanView;
  /** Whether the plan is being written anew: the draft stands for the plan until that is over. */
  isEditing: boolean;
  onEditing: (isEditing: boolean) => void;
}

/** Asks those who may for the decision about a plan. */
export function Deciding(asked: Asked) {
  const { plan } = asked;
  const { t } = useTranslation();
  const mayDecide = useMay("operator");
  if (mayDecide) {
    return <Decision {...asked} />;
  }
  return plan.status === "awaiting_approval" ? (
    <Card withBorder padding="sm" component="section" aria-label={t("plan.decide.waits")}>
      <Text fw={600}>{t("plan.decide.waits")}</Text>
      <Votes plan={plan} />
      <OnlyLooks />
      <Grants plan={plan} />
    </Card>
  ) : null;
}

/** Asks for the decision, of just the revision that was looked at. */
function Decision({ plan, isEditing, onEditing }: Asked) {
  const { t } = useTranslation();
  const [seen, setSeen] = useState(plan.revision);
  const [isRejecting, setRejecting] = useState(false);
  const [feedback, setFeedback] = useState("");
  const [isAuto, setAuto] = useState(plan.auto_approve_tools ?? true);
  const { mutate, isPending, error } = useSteer(
    (body: Omit<PlanAnswer, "revision" | "digest">) =>
      decidePlan({
        path: { plan_id: plan.plan_id },
        body: { ...body, revision: plan.revision, digest: plan.digest },
      }),
    () => setRejecting(false),
  );

  if (isEditing) {
    return <Editor plan={plan} isAuto={isAuto} onClose={() => onEditing(false)} />;
  }
  if (!isRejecting && plan.status !== "awaiting_approval") {
    return <Refusal error={error} />;
  }
  return (
    <Card withBorder padding="sm" component="section" aria-label={t("plan.decide.title")}>
      <Stack gap="sm">
        <Text fw={600}>{t("plan.decide.title")}</Text>
        <Votes plan={plan} />
        {seen !== plan.revision && (
          <Newer plan={plan} before={seen} onSeen={() => setSeen(plan.revision)} />
        )}
        <Switch
          label={t("plan.decide.auto")}
          description={t("plan.decide.autoHint")}
          checked={isAuto}
          onChange={(event) => setAuto(event.currentTarget.checked)}
        />
        {isAuto && <Grants plan={plan} />}
        <Refusal error={error} />
        {isRejecting ? (
          <Stack gap="xs">
            <Textarea
              label={t("plan.decide.feedback")}
              value={feedback}
              onChange={(event) => setFeedback(event.currentTarget.value)}
              autosize
              minRows={2}
              autoFocus
            />
            <RejectPlan
              planId={plan.plan_id}
              feedback={feedback}
              isPending={isPending}
              onStop={() => mutate({ decision: "reject", feedback: feedback.trim() || undefined })}
              onDone={() => setRejecting(false)}
            />
          </Stack>
        ) : (
          <Group gap="xs">
            {([true, false] as const).map((start) => (
              <Button
                key={String(start)}
                variant={start ? "filled" : "default"}
                disabled={seen !== plan.revision}
                loading={isPending}
                onClick={() => mutate({ decision: "approve", start, auto_approve_tools: isAuto })}
              >
                {t(start ? "plan.decide.approve" : "plan.decide.hold")}
              </Button>
            ))}
            <Button variant="default" onClick={() => onEditing(true)}>
              {t("plan.decide.edit")}
            </Button>
            <Button variant="outline" color="red" onClick={() => setRejecting(true)}>
              {t("plan.decide.reject")}
            </Button>
          </Group>
        )}
      </Stack>
    </Card>
  );
}

/** How many have approved already, where a rule of review asks for more than one. */
function Votes({ plan }: { plan: PlanView }) {
  const { t } = useTranslation();
  const { review, votes = [] } = useQuestion(plan) ?? {};
  if (review === undefined) {
    return null;
  }
  const names = votes.map(({ name }) => name).join(", ");
  return (
    <Text size="sm">
      {t("plan.decide.votes", { votes: votes.length, needed: review.needed, role: review.role })}
      {names !== "" && ` (${names})`}
      {review.problem !== undefined && ` ${review.problem}`}
    </Text>
  );
}

/** The plan was changed while it was looked at: nothing is approved that was not seen. */
function Newer({ plan, before, onSeen }: { plan: PlanView; before: number; onSeen: () => void }) {
  const { t } = useTranslation();
  const diff = useDiff(plan.plan_id, before, plan.revision);
  return (
    <Alert variant="default" role="alert" title={t("plan.decide.newer", { number: plan.revision })}>
      <Stack gap="xs">
        {before < plan.revision - 1 && diff.data && <Changes changes={diff.data} />}
        <Button variant="default" size="xs" onClick={onSeen} style={{ alignSelf: "flex-start" }}>
          {t("plan.decide.seen")}
        </Button>
      </Stack>
    </Alert>
  );
}
