import { Button, Stack, Textarea } from "@mantine/core";
import { useState } from "react";
import { Refusal } from "./Refusal";
import { useSteer } from "./useSteer";

/** A field for words about a plan; it is empty again once they are taken. */
export function Say({
  label,
  hint,
  button,
  send,
}: {
  label: string;
  hint?: string;
  button: string;
  send: (content: string) => Promise<unknown>;
}) {
  const [content, setContent] = useState("");
  const { mutate, isPending, error } = useSteer(
    () => send(content.trim()),
    () => setContent(""),
  );
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        mutate();
      }}
    >
      <Stack gap="xs">
        <Textarea
          label={label}
          description={hint}
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
          {button}
        </Button>
      </Stack>
    </form>
  );
}
