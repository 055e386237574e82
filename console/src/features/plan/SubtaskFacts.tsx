import { Anchor, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { Link } from "react-router";
import { type GraphNode, listCheckpointsOptions, type PlanView } from "@/shared/api";
import { estimate } from "@/shared/i18n/typography";
import { wordOf } from "@/shared/i18n/words";
import { Code, exact, Json, useScopeParts } from "@/shared/ui";
import classes from "./SubtaskFacts.module.css";
import { span, useElapsed } from "./times";

/** Everything that is known of a subtask: how it was planned, and what came of it. */
export function SubtaskFacts({ plan, node }: { plan: PlanView; node: GraphNode }) {
  const { t, i18n } = useTranslation();
  const took = useElapsed(node);
  const moment = (at: string | undefined) => at && exact(at, i18n.language);
  const { error, retry_policy } = node;
  return (
    <dl className={classes.facts}>
      <Fact name={t("plan.fact.agent")}>{node.agent}</Fact>
      <Fact name={t("plan.fact.tool")}>{node.tool}</Fact>
      <Fact name={t("plan.fact.type")}>{wordOf(t, "type", node.type)}</Fact>
      <Fact name={t("plan.fact.estimated")}>{estimate(node.estimated_time, i18n.language)}</Fact>
      <Fact name={t("plan.fact.started")}>{moment(node.started_at)}</Fact>
      <Fact name={t("plan.fact.finished")}>{moment(node.finished_at)}</Fact>
      <Fact name={t("plan.fact.took")}>{took !== undefined && span(took, t)}</Fact>
      <Fact name={t("plan.fact.waited")}>
        {node.waited_seconds !== undefined && span(node.waited_seconds, t)}
      </Fact>
      <Fact name={t("plan.fact.attempt")}>{node.attempt > 0 && node.attempt}</Fact>
      <Fact name={t("plan.fact.reason")}>{node.reason}</Fact>
      {error && <Failing error={error} />}
      <Fact name={t("plan.fact.result")} wide>
        {node.result !== undefined && <Json value={saidIn(node.result)} />}
      </Fact>
      <Fact name={t("plan.fact.approval")}>{node.approval_required && t("plan.fact.yes")}</Fact>
      <Fact name={t("plan.fact.condition")} wide>
        {node.condition && <Code text={node.condition} />}
      </Fact>
      <ScopeFacts node={node} />
      <Fact name={t("plan.fact.inputs")} wide>
        {node.inputs && <Json value={node.inputs} />}
      </Fact>
      <Fact name={t("plan.fact.timeout")}>
        {node.timeout !== undefined && span(node.timeout, t)}
      </Fact>
      <Fact name={t("plan.fact.retry")} wide>
        {retry_policy && <Json value={retry_policy} />}
      </Fact>
      <Fact name={t("plan.fact.onReject")}>
        {node.on_reject && t(`plan.onReject.${node.on_reject as "skip" | "fail"}`)}
      </Fact>
      <Fact name={t("plan.fact.afterSkipped")}>
        {node.after_skipped && t(`plan.afterSkipped.${node.after_skipped as "skip" | "run"}`)}
      </Fact>
      <Fact name={t("plan.fact.mustChange")}>
        {node.must_change !== undefined && t(`plan.fact.${node.must_change ? "yes" : "no"}`)}
      </Fact>
      {node.started_at !== undefined && <Checkpoints plan={plan} subtaskId={node.id} />}
    </dl>
  );
}

/** What an agent said at the end, without what the other facts tell; of anything else, all. */
function saidIn(result: unknown): unknown {
  const output = (result as { output?: unknown } | null)?.output;
  return typeof output === "string" && output !== "" ? output : result;
}

/** A name and what it stands for; nothing where there is nothing. */
function Fact({ name, wide, children }: { name: string; wide?: boolean; children: ReactNode }) {
  return children === undefined || children === false || children === null ? null : (
    <div data-wide={wide}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Failing({ error }: { error: Record<string, unknown> }) {
  const { t } = useTranslation();
  const { message, category, severity } = error;
  const words = [
    typeof category === "string" && wordOf(t, "category", category),
    typeof severity === "string" && wordOf(t, "severity", severity),
  ];
  return (
    <Fact name={t("plan.fact.error")} wide>
      <Stack gap={4}>
        <Text size="sm">{words.filter(Boolean).join(" · ")}</Text>
        <Code text={typeof message === "string" ? message : JSON.stringify(error, null, 2)} />
      </Stack>
    </Fact>
  );
}

/** What the approval of the plan grants to a subtask. */
function ScopeFacts({ node }: { node: GraphNode }) {
  const partsOf = useScopeParts();
  return partsOf(node).map(([name, values]) => (
    <Fact key={name} name={name} wide>
      <Code text={values.join("\n")} />
    </Fact>
  ));
}

function Checkpoints({ plan, subtaskId }: { plan: PlanView; subtaskId: string }) {
  const { t, i18n } = useTranslation();
  const { data } = useQuery(listCheckpointsOptions({ query: { plan_id: plan.plan_id } }));
  const own = data?.checkpoints.filter(({ subtask_id }) => subtask_id === subtaskId) ?? [];
  return (
    <Fact name={t("plan.fact.checkpoints")} wide>
      {own.length > 0 &&
        own.map(({ checkpoint_id, created_at, reason }) => (
          <div key={checkpoint_id}>
            <Anchor
              component={Link}
              to={`/sessions/${plan.session_id}/checkpoints`}
              size="sm"
              underline="always"
            >
              {exact(created_at, i18n.language)}
            </Anchor>{" "}
            {reason}
          </div>
        ))}
    </Fact>
  );
}
