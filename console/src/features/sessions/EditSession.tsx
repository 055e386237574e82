import { Button, Modal, Select, Stack, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import {
  editSession,
  getSessionQueryKey,
  listSessionsQueryKey,
  type SessionView,
} from "@/shared/api";
import { LANGUAGE_CHOICES } from "@/shared/i18n";
import { Failure } from "@/shared/ui";

/** Changes what a session is called, and in which language it answers. */
export function EditSession({ session, onClose }: { session: SessionView; onClose: () => void }) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const [title, setTitle] = useState(session.title ?? "");
  const [locale, setLocale] = useState<string | null>(session.locale ?? null);
  const path = { session_id: session.session_id };
  const { mutate, error, isPending } = useMutation({
    mutationFn: () => editSession({ path, body: { title: title.trim(), locale } }),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: getSessionQueryKey({ path }) });
      void queries.invalidateQueries({ queryKey: listSessionsQueryKey() });
      onClose();
    },
  });

  function submit(event: FormEvent): void {
    event.preventDefault();
    mutate();
  }

  return (
    <Modal opened onClose={onClose} title={t("sessions.edit")}>
      <form onSubmit={submit}>
        <Stack>
          <TextInput
            label={t("sessions.name")}
            value={title}
            onChange={(event) => setTitle(event.currentTarget.value)}
            maxLength={200}
            data-autofocus
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
            {t("common.save")}
          </Button>
        </Stack>
      </form>
    </Modal>
  );
}
