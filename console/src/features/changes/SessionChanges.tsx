import { Anchor, Group, Select, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { Link } from "react-router";
import {
  getPlanChangesOptions,
  getSessionChangesOptions,
  getSessionOptions,
  listPlansOptions,
  type PlanView,
} from "@/shared/api";
import { UndoButton } from "@/shared/UndoButton";
import { Loaded, visible } from "@/shared/ui";
import { FileList } from "./FileList";

const PLANS = 100;
const ALL = "";

/** What agents did to files: in the whole session, in one of its plans, or in one subtask. */
export function SessionChanges({ sessionId }: { sessionId: string }) {
  const { t } = useTranslation();
  const [chosen, setChosen] = useState(ALL);
  const plans = useQuery(listPlansOptions({ query: { session_id: sessionId, limit: PLANS } }));

  const session = useQuery(getSessionOptions({ path: { session_id: sessionId } }));
  const workspace = session.data?.workspace;

  return (
    <Loaded query={plans}>
      {({ plans }) => {
        const plan = plans.find(({ plan_id }) => plan_id === chosen);
        const only = plans.length === 1 ? plans[0] : undefined;
        const choices = plans.map(({ plan_id, goal }) => ({
          value: plan_id,
          label: visible(goal),
        }));
        return (
          <Stack gap="sm">
            {plans.length > 0 && (
              <Select
                label={t("changes.whose")}
                data={[{ value: ALL, label: t("changes.session") }, ...choices]}
                value={chosen}
                onChange={(next) => setChosen(next ?? ALL)}
                allowDeselect={false}
                searchable
              />
            )}
            {plans.length > 0 && (
              <Group gap="sm">
                {(plan ?? only) && <UndoButton plan={(plan ?? only) as PlanView} />}
                <Anchor component={Link} to={`/sessions/${sessionId}/checkpoints`} size="sm">
                  {t("changes.undo")}
                </Anchor>
              </Group>
            )}
            {plan === undefined ? (
              <OfSession sessionId={sessionId} workspace={workspace} />
            ) : (
              <OfPlan key={plan.plan_id} plan={plan} workspace={workspace} />
            )}
          </Stack>
        );
      }}
    </Loaded>
  );
}

function OfSession({ sessionId, workspace }: { sessionId: string; workspace?: string }) {
  const path = { session_id: sessionId };
  const found = useQuery({ ...getSessionChangesOptions({ path }), staleTime: 0 });
  return (
    <Loaded query={found}>
      {(changes) => (
        <FileList
          changes={changes}
          workspace={workspace}
          whole={(file) => getSessionChangesOptions({ path, query: { path: file } })}
        />
      )}
    </Loaded>
  );
}

function OfPlan({ plan, workspace }: { plan: PlanView; workspace?: string }) {
  const { t } = useTranslation();
  const [subtask, setSubtask] = useState<string | null>(null);
  const path = { plan_id: plan.plan_id };
  const subtask_id = subtask ?? undefined;
  const found = useQuery({
    ...getPlanChangesOptions({ path, query: { subtask_id } }),
    staleTime: 0,
  });
  return (
    <>
      <Group gap="sm" align="flex-end">
        <Select
          flex={1}
          label={t("changes.subtask")}
          placeholder={t("changes.allSubtasks")}
          data={plan.subtasks.map(({ id }) => id)}
          value={subtask}
          onChange={setSubtask}
          clearable
          searchable
        />
        {subtask_id !== undefined && <UndoButton plan={plan} subtaskId={subtask_id} />}
      </Group>
      <Loaded query={found}>
        {(changes) => (
          <FileList
            changes={changes}
            workspace={workspace}
            whole={(file) => getPlanChangesOptions({ path, query: { subtask_id, path: file } })}
          />
        )}
      </Loaded>
    </>
  );
}
