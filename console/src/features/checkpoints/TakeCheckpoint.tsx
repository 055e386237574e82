import { Button, Group, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { createCheckpoint } from "@/shared/api";
import { refreshPlans } from "@/shared/events";
import { useMay } from "@/shared/me";
import { Failure } from "@/shared/ui";

/** Takes a checkpoint of a plan now, with a note by which a person finds it again. */
export function TakeCheckpoint({ planId }: { planId: string }) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const mayTake = useMay("operator");
  const [note, setNote] = useState("");
  const { mutate, isPending, error } = useMutation({
    mutationFn: () =>
      createCheckpoint({ body: { plan_id: planId, note: note.trim() || undefined } }),
    onSuccess: () => {
      setNote("");
      return refreshPlans(queries);
    },
  });
  return mayTake ? (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        mutate();
      }}
    >
      <Group align="flex-end" gap="xs">
        <TextInput
          w={280}
          label={t("checkpoints.note")}
          placeholder={t("checkpoints.noteHint")}
          value={note}
          onChange={(event) => setNote(event.currentTarget.value)}
        />
        <Button type="submit" variant="default" loading={isPending}>
          {t("checkpoints.take")}
        </Button>
      </Group>
      {error !== null && <Failure error={error} />}
    </form>
  ) : null;
}
