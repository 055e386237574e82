import { Button, Modal, Select, Stack, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { useNavigate } from "react-router";
import { listSessionsQueryKey, listWorkspacesQueryKey, openSession } from "@/shared/api";
import { LANGUAGE_CHOICES } from "@/shared/i18n";
import { Failure } from "@/shared/ui";

/** Asks what a session needs, opens it, and goes there. */
export default function NewSession({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const queries = useQueryClient();
  const [title, setTitle] = useState("");
  const [workspace, setWorkspace] = useState("");
  const [locale, setLocale] = useState<string | null>(null);
  const { mutate, isPending, error } = useMutation({
    mutationFn: () =>
      openSession({
        body: {
          title: title.trim() || undefined,
          workspace: workspace.trim() || undefined,
          locale: locale ?? undefined,
        },
        throwOnError: true,
      }),
    onSuccess: ({ data }) => {
      void queries.invalidateQueries({ queryKey: listSessionsQueryKey() });
      void queries.invalidateQueries({ queryKey: listWorkspacesQueryKey() });
      navigate(`/sessions/${data.session_id}`);
    },
  });

  return (
    <Modal opened onClose={onClose} title={t("sessions.new")}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          mutate();
        }}
      >
        <Stack>
          <TextInput
            label={t("sessions.name")}
            value={title}
            onChange={(event) => setTitle(event.currentTarget.value)}
            data-autofocus
          />
          <TextInput
            label={t("sessions.workspace")}
            description={t("sessions.workspaceHint")}
            value={workspace}
            onChange={(event) => setWorkspace(event.currentTarget.value)}
          />
          <Select
            label={t("sessions.locale")}
            placeholder={t("sessions.localeAuto")}
            data={LANGUAGE_CHOICES}
            value={locale}
            onChange={setLocale}
            clearable
          />
          {error !== null && <Failure error={error} />}
          <Button type="submit" loading={isPending}>
            {t("sessions.create")}
          </Button>
        </Stack>
      </form>
    </Modal>
  );
}
