import { SegmentedControl, Stack, Text } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { useSearchParams } from "react-router";
import {
  getGraphOptions,
  getPendingOptions,
  getPlanOptions,
  getStatusOptions,
  type ModelUsageView,
  type PlanGraph,
  type PlanStatusView,
  type PlanView,
} from "@/shared/api";
import { Loaded, Loading } from "@/shared/ui";
import { Comments } from "./Comments";
import { Deciding } from "./Deciding";
import { Failures } from "./Failures";
import { Findings } from "./Findings";
import { GraphView } from "./GraphView";
import { PlanHead } from "./PlanHead";
import { earlierOf, Revisions, useDiff } from "./Revisions";
import { Steering } from "./Steering";
import { SubtaskDrawer } from "./SubtaskDrawer";
import { SubtaskList } from "./SubtaskList";
import { LARGE } from "./size";

/** One plan: what it is for, how far it is, what waits for a person, and its subtasks. */
export function OnePlan({ planId }: { planId: string }) {
  const plan = useQuery(getPlanOptions({ path: { plan_id: planId } }));
  return <Loaded query={plan}>{(plan) => <Whole plan={plan} />}</Loaded>;
}

/** Drawn at once: nothing that comes late pushes a button from under the pointer. */
function Whole({ plan }: { plan: PlanView }) {
  const { plan_id, session_id, revision } = plan;
  const path = { plan_id };
  const status = useQuery(getStatusOptions({ path }));
  const graph = useQuery(getGraphOptions({ path }));
  const asked = useQuery(getPendingOptions({ path: { session_id } }));
  const diff = useDiff(plan_id, earlierOf(plan), revision);
  const [open, setOpen] = useState<string>();
  const [isDrawn, setDrawn] = useState(false);
  const [search] = useSearchParams();
  const isAsked = plan.status === "awaiting_approval";
  const [isEditing, setEditing] = useState(isAsked && search.has("edit"));
  if (!isDrawn) {
    if ([status, graph, asked, diff].some(({ isLoading }) => isLoading)) {
      return <Loading />;
    }
    setDrawn(true);
  }

  return (
    <Stack gap="md">
      <PlanHead plan={plan} status={status.data} />
      <Steering plan={plan} />
      {isAsked && !isEditing && <Findings plan={plan} onOpen={setOpen} />}
      <Revisions plan={plan} />
      <Loaded query={graph}>
        {(graph) => (
          <>
            <Failures plan={plan} graph={graph} onOpen={setOpen} />
            {!isEditing && <Subtasks graph={graph} onOpen={setOpen} />}
            <SubtaskDrawer
              plan={plan}
              graph={graph}
              again={status.data?.again ?? []}
              spent={spentIn(status.data)}
              opened={open}
              onOpen={setOpen}
            />
          </>
        )}
      </Loaded>
      <Deciding plan={plan} isEditing={isEditing} onEditing={setEditing} />
      <Comments plan={plan} />
    </Stack>
  );
}

/** What each subtask took, of those that asked a model. */
function spentIn(status: PlanStatusView | undefined): ReadonlyMap<string, ModelUsageView> {
  return new Map(
    (status?.subtasks ?? []).flatMap(({ id, usage }) => (usage === undefined ? [] : [[id, usage]])),
  );
}

/** The subtasks as a graph or as a list; first as a list where a graph has no room, or is large. */
function Subtasks({ graph, onOpen }: { graph: PlanGraph; onOpen: (id: string) => void }) {
  const { t } = useTranslation();
  const isNarrow = useMediaQuery("(max-width: 48em)", undefined, {
    getInitialValueInEffect: false,
  });
  const [chosen, choose] = useState<string>();
  const view = chosen ?? (isNarrow || graph.nodes.length > LARGE ? "list" : "graph");
  return (
    <Stack gap="xs">
      <SegmentedControl
        style={{ alignSelf: "flex-start" }}
        size="xs"
        aria-label={t("plan.view")}
        data={[
          { value: "graph", label: t("plan.graph.name") },
          { value: "list", label: t("plan.list") },
        ]}
        value={view}
        onChange={choose}
      />
      {view === "graph" ? (
        <>
          <GraphView graph={graph} onOpen={onOpen} />
          <Text size="xs" c="dimmed">
            {t("plan.graph.legend")}
          </Text>
        </>
      ) : (
        <SubtaskList graph={graph} onOpen={onOpen} />
      )}
    </Stack>
  );
}
