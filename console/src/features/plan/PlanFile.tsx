import { Alert, Button, FileButton, Group, List, Modal, Stack, Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";
import { useTranslation } from "react-i18next";
import { checkNewPlan, createPlan } from "@/shared/api";
import { refreshPlans } from "@/shared/events";
import { isObject } from "@/shared/json";
import { useMay } from "@/shared/me";
import { Failure, visible } from "@/shared/ui";
import { FindingLines } from "./FindingLines";
import { MOST, NoPlan, planIn } from "./planFile";

/** Takes a plan that a person wrote as a file, shows what is to be said of it, and proposes it. */
export function PlanFile({ sessionId }: { sessionId: string }) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const mayPlan = useMay("operator");
  const forget = useRef<() => void>(null);
  const looked = useMutation({
    mutationFn: async (file: File) => {
      if (file.size > MOST) {
        throw new NoPlan("");
      }
      const plan = await planIn(await file.text());
      const { data } = await checkNewPlan({ body: plan, throwOnError: true });
      return { plan, check: data };
    },
  });
  const made = useMutation({
    mutationFn: () =>
      createPlan({ body: { session_id: sessionId, ...looked.data?.plan } as never }),
    onSuccess: () => looked.reset(),
    onSettled: () => refreshPlans(queries),
  });
  if (!mayPlan) {
    return null;
  }

  function close(): void {
    looked.reset();
    made.reset();
  }

  return (
    <>
      <FileButton
        resetRef={forget}
        accept=".yaml,.yml,.json"
        onChange={(file) => {
          if (file !== null) {
            looked.mutate(file);
            // A file that was mended is read again, under the same name.
            forget.current?.();
          }
        }}
        inputProps={{ "aria-label": t("plan.file.upload") }}
      >
        {(props) => (
          <Button {...props} size="xs" variant="default" loading={looked.isPending}>
            {t("plan.file.upload")}
          </Button>
        )}
      </FileButton>
      <Modal
        opened={looked.isError || looked.isSuccess}
        onClose={close}
        size="lg"
        title={t("plan.file.title")}
      >
        {looked.isError && <Unread error={looked.error} />}
        {looked.data && (
          <Stack gap="sm">
            <Text fw={600}>{visible(looked.data.plan.goal)}</Text>
            <List size="sm" type="ordered">
              {looked.data.plan.subtasks.filter(isObject).map((subtask) => (
                <List.Item key={String(subtask.id)}>
                  {visible(`${String(subtask.id)}: ${String(subtask.description ?? "")}`)}
                </List.Item>
              ))}
            </List>
            {looked.data.check.problem && (
              <Alert color="red" role="alert">
                {visible(looked.data.check.problem)}
              </Alert>
            )}
            <FindingLines findings={looked.data.check.findings ?? []} />
            {made.error !== null && <Failure error={made.error} />}
            <Group justify="flex-end">
              <Button variant="default" onClick={close}>
                {t("common.cancel")}
              </Button>
              <Button
                loading={made.isPending}
                disabled={!looked.data.check.ok}
                onClick={() => made.mutate()}
              >
                {t("plan.file.propose")}
              </Button>
            </Group>
          </Stack>
        )}
      </Modal>
    </>
  );
}

/** Why a file cannot be a plan. */
function Unread({ error }: { error: unknown }) {
  const { t } = useTranslation();
  if (!(error instanceof NoPlan)) {
    return <Failure error={error} />;
  }
  return (
    <Alert color="red" role="alert">
      {error.line === undefined
        ? t("plan.file.noPlan")
        : t("plan.file.badLine", { line: error.line, reason: error.message })}
    </Alert>
  );
}
