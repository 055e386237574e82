import { Button, Group, Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { Failure } from "@/shared/ui";
import { usePlanAgain } from "./planAgain";

/** Asks who rejects a plan what comes after it: another plan that heeds what they said, or nothing. */
export function RejectPlan({
  planId,
  feedback,
  isPending,
  onStop,
  onDone,
}: {
  planId: string;
  /** What is wrong with the plan, as far as it was written. */
  feedback: string;
  /** Whether the rejection is on its way. */
  isPending: boolean;
  onStop: () => void;
  /** Told when another plan is being made, or nothing is to be rejected after all. */
  onDone: () => void;
}) {
  const { t } = useTranslation();
  const { mutate, isPending: isSent, error } = usePlanAgain(planId, onDone);
  return (
    <Stack gap="xs" role="group" aria-label={t("plan.decide.after")}>
      <Text size="sm" fw={600}>
        {t("plan.decide.after")}
      </Text>
      {error !== null && <Failure error={error} />}
      <Group gap="xs">
        <Button
          disabled={feedback.trim() === ""}
          loading={isSent}
          onClick={() => mutate(feedback.trim())}
        >
          {t("plan.decide.again")}
        </Button>
        <Button color="red" variant="outline" loading={isPending} onClick={onStop}>
          {t("plan.decide.rejectNow")}
        </Button>
        <Button variant="subtle" onClick={onDone}>
          {t("common.cancel")}
        </Button>
      </Group>
      <Text size="xs" c="dimmed">
        {t("plan.decide.againHint")}
      </Text>
    </Stack>
  );
}
