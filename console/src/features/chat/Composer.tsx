import { Button, Group, Select, Stack, Textarea } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type KeyboardEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { listAgentsOptions } from "@/shared/api";
import { send, whatPeopleSaid } from "@/shared/events";
import { Failure } from "@/shared/ui";

/** Where one says what is to be done. What is refused is in its field again. */
export function Composer({
  sessionId,
  isBusy,
  onSending,
}: {
  sessionId: string;
  isBusy: boolean;
  /** Told what is on its way, and when nothing is any more. */
  onSending: (text: string | undefined) => void;
}) {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const [text, setText] = useState("");
  const [agent, setAgent] = useState<string | null>(null);
  const agents = useQuery({ ...listAgentsOptions(), staleTime: Number.POSITIVE_INFINITY });
  const message = useMutation({
    mutationFn: (content: string) =>
      send(sessionId, { type: "user_message", content, agent_type: agent ?? undefined }),
    onMutate: (sent) => {
      setText("");
      onSending(sent);
    },
    // What is on its way is drawn until the history has it.
    onSuccess: () => queries.invalidateQueries({ queryKey: whatPeopleSaid(sessionId).queryKey }),
    // Whoever typed on while it was sent has begun the next message.
    onError: (_why, sent) => setText((now) => (now === "" ? sent : `${sent}\n${now}`)),
    onSettled: () => onSending(undefined),
  });
  const stop = useMutation({ mutationFn: () => send(sessionId, { type: "cancel" }) });

  function onKey(event: KeyboardEvent): void {
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      submit();
    }
  }

  function submit(): void {
    if (text.trim() !== "" && !message.isPending) {
      message.mutate(text);
    }
  }

  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <Stack gap="xs">
        {message.error !== null && <Failure error={message.error} />}
        {stop.error !== null && <Failure error={stop.error} />}
        <Textarea
          aria-label={t("chat.placeholder")}
          placeholder={t("chat.placeholder")}
          autosize
          minRows={2}
          maxRows={10}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          onKeyDown={onKey}
        />
        <Group justify="space-between" wrap="nowrap">
          <Select
            aria-label={t("chat.agent")}
            placeholder={t("chat.auto")}
            data={(agents.data?.agents ?? []).map(({ name }) => name)}
            value={agent}
            onChange={setAgent}
            clearable
            style={{ flex: "0 1 15rem", minWidth: "8rem" }}
          />
          <Group gap="xs" wrap="nowrap" style={{ flex: "none" }}>
            {isBusy && (
              <Button variant="default" loading={stop.isPending} onClick={() => stop.mutate()}>
                {t("chat.stop")}
              </Button>
            )}
            <Button type="submit" loading={message.isPending} disabled={text.trim() === ""}>
              {t("chat.send")}
            </Button>
          </Group>
        </Group>
      </Stack>
    </form>
  );
}
