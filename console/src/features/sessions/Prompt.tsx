import { Autocomplete, Button, Select, Stack, Textarea, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type KeyboardEvent, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { useNavigate } from "react-router";
import {
  listAgentsOptions,
  listModelsOptions,
  listWorkspacesOptions,
  listWorkspacesQueryKey,
  openSession,
  type Workspaces,
} from "@/shared/api";
import { send } from "@/shared/events";
import { Failure } from "@/shared/ui";
import classes from "./Sessions.module.css";

const KEPT = { staleTime: Number.POSITIVE_INFINITY };

/** What is to be done, where, and by whom: sent, it is a session. */
export function Prompt() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const queries = useQueryClient();
  const [text, setText] = useState("");
  const [workspace, setWorkspace] = useState<string>();
  const [agent, setAgent] = useState<string | null>(null);
  const [model, setModel] = useState<string | null>(null);
  // A session whose first message was refused gets the next one.
  const opened = useRef<{ place: string; sessionId: string }>(undefined);
  const folders = useQuery(listWorkspacesOptions());
  const agents = useQuery({ ...listAgentsOptions(), ...KEPT });
  const models = useQuery({ ...listModelsOptions(), ...KEPT });
  const folder = workspace ?? folders.data?.recent[0] ?? folders.data?.default ?? "";

  const { mutate, isPending, error } = useMutation({
    mutationFn: async () => {
      const body = { workspace: folder.trim() || undefined, model: model ?? undefined };
      const place = JSON.stringify(body);
      if (opened.current?.place !== place) {
        const { data } = await openSession({ body, throwOnError: true });
        opened.current = { place, sessionId: data.session_id };
      }
      const { sessionId } = opened.current;
      await send(sessionId, {
        type: "user_message",
        content: text,
        agent_type: agent ?? undefined,
      });
      return sessionId;
    },
    onSuccess: (sessionId) => {
      // Its folder is the one that was used last.
      void queries.invalidateQueries({ queryKey: listWorkspacesQueryKey() });
      navigate(`/sessions/${sessionId}`);
    },
  });

  function submit(): void {
    if (text.trim() !== "" && !isPending) {
      mutate();
    }
  }

  function onKey(event: KeyboardEvent): void {
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      submit();
    }
  }

  return (
    <form
      aria-label={t("sessions.prompt")}
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <Stack gap="xs">
        <Title order={2} size="h4">
          {t("chat.placeholder")}
        </Title>
        <Stack gap="xs" className={classes.prompt}>
          <Textarea
            variant="unstyled"
            aria-label={t("chat.placeholder")}
            placeholder={t("sessions.promptHint")}
            autosize
            minRows={3}
            maxRows={12}
            value={text}
            onChange={(event) => setText(event.currentTarget.value)}
            onKeyDown={onKey}
            data-autofocus
          />
          <div className={classes.choices}>
            <Autocomplete
              size="xs"
              label={t("sessions.workspace")}
              placeholder={t("sessions.workspace")}
              data={foldersOf(folders.data, [t("sessions.recent"), t("sessions.allowed")])}
              value={folder}
              onChange={setWorkspace}
            />
            <Select
              size="xs"
              label={t("chat.agent")}
              placeholder={t("chat.auto")}
              data={(agents.data?.agents ?? []).map(({ name }) => name)}
              value={agent}
              onChange={setAgent}
              clearable
            />
            <Select
              size="xs"
              label={t("sessions.model")}
              placeholder={t("sessions.modelOfServer")}
              data={[...new Set((models.data?.models ?? []).map(({ name }) => String(name)))]}
              value={model}
              onChange={setModel}
              clearable
              searchable
            />
            <Button size="xs" type="submit" loading={isPending} disabled={text.trim() === ""}>
              {t("chat.send")}
            </Button>
          </div>
        </Stack>
        {error !== null && <Failure error={error} />}
      </Stack>
    </form>
  );
}

/** Folders to choose from: those used lately, then others that are allowed. */
function foldersOf(found: Workspaces | undefined, groups: readonly [string, string]) {
  const recent = found?.recent ?? [];
  const allowed = (found?.roots ?? []).filter((root) => !recent.includes(root));
  return [
    { group: groups[0], items: recent },
    { group: groups[1], items: allowed },
  ].filter(({ items }) => items.length > 0);
}
