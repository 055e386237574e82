import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { type ApprovalView, getPlanOptions } from "@/shared/api";
import { type Bounded, useScopeParts, visible } from "@/shared/ui";
import classes from "./Approvals.module.css";
import { Fact } from "./Facts";

/** What a subtask may do without a question. */
export function ScopeAsked({ subtask }: { subtask: Bounded }) {
  const parts = useScopeParts()(subtask);
  return parts.length === 0 ? null : (
    <dl className={classes.facts} data-scope>
      {parts.map(([name, values]) => (
        <Fact key={name} name={name}>
          <code>{visible(values.join(", "))}</code>
        </Fact>
      ))}
    </dl>
  );
}

/** The scope of the subtask that a call is of, which the call leaves. */
export function ScopeLeft({ approval }: { approval: ApprovalView }) {
  const { plan_id = "", subtask_id } = approval;
  const { t } = useTranslation();
  const { data } = useQuery({
    ...getPlanOptions({ path: { plan_id } }),
    enabled: plan_id !== "" && subtask_id !== undefined,
    staleTime: 30_000,
    retry: false,
  });
  const subtask = data?.subtasks.find(({ id }) => id === subtask_id);
  return subtask === undefined ? null : (
    <div>
      <Text size="sm" fw={600}>
        {t("approvals.scopeOf", { id: subtask.id })}
      </Text>
      <ScopeAsked subtask={subtask} />
    </div>
  );
}
