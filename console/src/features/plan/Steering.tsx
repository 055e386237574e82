import { Button, Group, Modal, Stack, Text, Textarea } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { Link } from "react-router";
import { cancel, type PlanStatus, type PlanView, pause, replan, resume, start } from "@/shared/api";
import { useMay } from "@/shared/me";
import { UndoButton } from "@/shared/UndoButton";
import { Refusal } from "./Refusal";
import { useSteer } from "./useSteer";

type Verb = "start" | "pause" | "resume" | "replan" | "cancel";

/** What can be done to a plan, by where it stands; one that waits for approval is decided. */
const VERBS: Partial<Record<PlanStatus, readonly Verb[]>> = {
  approved: ["start", "cancel"],
  running: ["pause", "replan", "cancel"],
  paused: ["resume", "replan", "cancel"],
  replanning: ["cancel"],
  failed: ["replan"],
  partial: ["replan"],
};

/** Starts, halts, changes and ends a plan. */
export function Steering({ plan }: { plan: PlanView }) {
  const { t } = useTranslation();
  const [asked, ask] = useState<"cancel" | "replan">();
  const path = { plan_id: plan.plan_id };
  const acts = { start, pause, resume };
  const steer = useSteer((verb: "start" | "pause" | "resume") => acts[verb]({ path }));
  const maySteer = useMay("operator");
  const verbs = maySteer ? (VERBS[plan.status] ?? []) : [];

  return (
    <>
      {(verbs.length > 0 || plan.started_at !== undefined) && (
        <Group gap="xs">
          {verbs.map((verb) => (
            <Button
              key={verb}
              size="xs"
              variant={verb === "start" || verb === "resume" ? "filled" : "default"}
              loading={steer.isPending && steer.variables === verb}
              onClick={() =>
                verb === "cancel" || verb === "replan" ? ask(verb) : steer.mutate(verb)
              }
            >
              {t(`plan.steer.${verb}`)}
            </Button>
          ))}
          {plan.started_at !== undefined && (
            <Button
              size="xs"
              variant="default"
              component={Link}
              to={`/sessions/${plan.session_id}/changes`}
            >
              {t("plan.steer.changes")}
            </Button>
          )}
          <UndoButton plan={plan} />
        </Group>
      )}
      <Refusal error={steer.error} />
      <Cancelling plan={plan} opened={asked === "cancel"} onClose={() => ask(undefined)} />
      <Replanning plan={plan} opened={asked === "replan"} onClose={() => ask(undefined)} />
    </>
  );
}

interface Asked {
  plan: PlanView;
  opened: boolean;
  onClose: () => void;
}

function Cancelling({ plan, opened, onClose }: Asked) {
  const { t } = useTranslation();
  const [why, setWhy] = useState("");
  const { mutate, isPending, error } = useSteer(
    () => cancel({ path: { plan_id: plan.plan_id }, body: { reason: why.trim() || undefined } }),
    onClose,
  );
  return (
    <Modal opened={opened} onClose={onClose} title={t("plan.steer.cancel")}>
      <Stack>
        <Text size="sm">{t("plan.steer.cancelSure")}</Text>
        <Textarea
          label={t("plan.steer.cancelWhy")}
          value={why}
          onChange={(event) => setWhy(event.currentTarget.value)}
          autosize
        />
        <Refusal error={error} />
        <Group gap="xs">
          <Button color="red" loading={isPending} onClick={() => mutate()}>
            {t("plan.steer.cancelNow")}
          </Button>
          <Button variant="default" onClick={onClose} data-autofocus>
            {t("plan.steer.keep")}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}

function Replanning({ plan, opened, onClose }: Asked) {
  const { t } = useTranslation();
  const [reason, setReason] = useState("");
  const { mutate, isPending, error } = useSteer(
    () => replan({ path: { plan_id: plan.plan_id }, body: { reason: reason.trim() } }),
    () => {
      setReason("");
      onClose();
    },
  );
  return (
    <Modal opened={opened} onClose={onClose} title={t("plan.steer.replan")}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          mutate();
        }}
      >
        <Stack>
          <Textarea
            label={t("plan.steer.reason")}
            description={t("plan.steer.replanHint")}
            value={reason}
            onChange={(event) => setReason(event.currentTarget.value)}
            autosize
            minRows={2}
            required
            data-autofocus
          />
          <Refusal error={error} />
          <Button type="submit" loading={isPending}>
            {t("plan.steer.replanNow")}
          </Button>
        </Stack>
      </form>
    </Modal>
  );
}
