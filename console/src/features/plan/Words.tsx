import { Button, Stack, Textarea } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type GraphNode, type PlanView, steerSubtask } from "@/shared/api";
import { useMay } from "@/shared/me";
import { Refusal } from "./Refusal";
import { useSteer } from "./useSteer";

/** A field for words to the agent of a subtask that is at work; the server has the last word. */
export function Words({ plan, node }: { plan: PlanView; node: GraphNode }) {
  const { t } = useTranslation();
  const [content, setContent] = useState("");
  const path = { plan_id: plan.plan_id, subtask_id: node.id };
  const { mutate, isPending, error } = useSteer(
    () => steerSubtask({ path, body: { content: content.trim() } }),
    () => setContent(""),
  );
  const mayTell = useMay("operator");
  const isAtWork =
    node.agent !== undefined && ["running", "waiting_approval"].includes(node.status);
  if (!mayTell || !isAtWork) {
    return null;
  }
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        mutate();
      }}
    >
      <Stack gap="xs">
        <Textarea
          label={t("plan.words.new", { agent: node.agent ?? "" })}
          description={t("plan.words.hint")}
          value={content}
          onChange={(event) => setContent(event.currentTarget.value)}
          autosize
          minRows={2}
          maxLength={4_000}
          required
        />
        <Refusal error={error} />
        <Button
          type="submit"
          size="xs"
          variant="default"
          loading={isPending}
          style={{ alignSelf: "flex-start" }}
        >
          {t("plan.words.say")}
        </Button>
      </Stack>
    </form>
  );
}
