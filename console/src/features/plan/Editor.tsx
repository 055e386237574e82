import { Alert, Button, Card, Group, Stack, Switch, Text } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import {
  decidePlan,
  getRevisionOptions,
  type PlanView,
  type RevisionView,
  type Subtask,
} from "@/shared/api";
import { plain } from "@/shared/i18n/typography";
import { Loaded, visible } from "@/shared/ui";
import { Changes } from "./Changes";
import { changesBetween, isNothing } from "./changes";
import { DraftGraph } from "./DraftGraph";
import { DraftList } from "./DraftList";
import { draftsOf, flawsOf, subtasksOf } from "./drafts";
import { FindingLines } from "./FindingLines";
import { Refusal } from "./Refusal";
import { LARGE } from "./size";
import { useCheck } from "./useCheck";
import { useSteer } from "./useSteer";

/** A plan that waits, written anew by a person. What was written stays, whatever happens to it. */
export function Editor({
  plan,
  isAuto,
  onClose,
}: {
  plan: PlanView;
  isAuto: boolean;
  onClose: () => void;
}) {
  const [base, setBase] = useState(plan.revision);
  const revision = useQuery({
    ...getRevisionOptions({ path: { plan_id: plan.plan_id, number: base } }),
    staleTime: Number.POSITIVE_INFINITY,
    placeholderData: keepPreviousData,
  });
  return (
    <Loaded query={revision}>
      {(revision) => (
        <Writing
          plan={plan}
          base={revision}
          isAuto={isAuto}
          onRebase={() => setBase(plan.revision)}
          onClose={onClose}
        />
      )}
    </Loaded>
  );
}

function Writing({
  plan,
  base,
  isAuto,
  onRebase,
  onClose,
}: {
  plan: PlanView;
  base: RevisionView;
  isAuto: boolean;
  onRebase: () => void;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const [drafts, setDrafts] = useState(() => draftsOf(base.subtasks));
  const [isStarted, setStarted] = useState(true);
  const written = subtasksOf(drafts);
  const flaws = flawsOf(drafts);
  const text = JSON.stringify(written);
  const isSame = text === JSON.stringify(base.subtasks);
  const isAwaited = plan.status === "awaiting_approval";
  const isStale = plan.revision !== base.revision;
  const check = useCheck(plan, text, flaws.length === 0 && isAwaited);
  const findings = check?.findings ?? [];
  const { mutate, isPending, error } = useSteer(
    () =>
      decidePlan({
        path: { plan_id: plan.plan_id },
        body: {
          decision: "edit",
          revision: base.revision,
          digest: base.digest,
          modified_subtasks: written,
          auto_approve_tools: isAuto,
          start: isStarted,
        },
      }),
    onClose,
  );

  return (
    <Card withBorder padding="sm" component="section" aria-label={t("plan.edit.title")}>
      <Stack gap="sm">
        <Text fw={600}>{t("plan.edit.title")}</Text>
        {!isAwaited && (
          <Alert variant="default" role="alert">
            {t("plan.edit.over", { status: t(`words.status.plan.${plan.status}`) })}
          </Alert>
        )}
        {isAwaited && isStale && (
          <Alert variant="default" role="alert">
            <Group justify="space-between">
              <Text size="sm">{t("plan.edit.stale", { number: plan.revision })}</Text>
              <Button size="xs" variant="default" onClick={onRebase}>
                {t("plan.edit.rebase", { number: plan.revision })}
              </Button>
            </Group>
          </Alert>
        )}
        <DraftList drafts={drafts} flaws={flaws} findings={findings} onChange={setDrafts} />
        {drafts.length <= LARGE && <DraftGraph drafts={drafts} onChange={setDrafts} />}
        <div role="status">
          {check?.problem !== undefined && (
            <Text size="sm" c="var(--mantine-color-error)">
              {visible(plain(check.problem))}
            </Text>
          )}
          <FindingLines findings={findings.filter(({ subtask_id }) => subtask_id === undefined)} />
        </div>
        {!isSame && <Difference before={base.subtasks} after={written} />}
        <Refusal error={error} />
        <Switch
          label={t("plan.edit.start")}
          checked={isStarted}
          onChange={(event) => setStarted(event.currentTarget.checked)}
        />
        <Group gap="xs">
          <Button
            disabled={isSame || flaws.length > 0 || isStale || !isAwaited || written.length === 0}
            loading={isPending}
            onClick={() => mutate()}
          >
            {t("plan.edit.send")}
          </Button>
          <Button variant="default" onClick={onClose}>
            {t(isSame ? "plan.edit.leave" : "plan.edit.drop")}
          </Button>
          <Text size="sm" role="status">
            {isAwaited && isSame && flaws.length === 0 && t("plan.edit.same")}
            {flaws.length > 0 && t("plan.edit.flaws", { count: flaws.length })}
          </Text>
        </Group>
      </Stack>
    </Card>
  );
}

function Difference({ before, after }: { before: readonly Subtask[]; after: readonly Subtask[] }) {
  const { t } = useTranslation();
  const changes = changesBetween(before, after);
  return (
    <details open>
      <summary>
        {t("plan.edit.changes", {
          added: changes.added.length,
          removed: changes.removed.length,
          changed: changes.changed.length,
        })}
      </summary>
      {isNothing(changes) ? (
        <Text size="sm">{t("plan.edit.order")}</Text>
      ) : (
        <Changes changes={changes} />
      )}
    </details>
  );
}
