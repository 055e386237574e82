import { Alert, Button, Container, Stack, Text, TextInput, Title } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { logIn } from "@/shared/api";
import { useReason } from "@/shared/ui";
import { entryIn } from "./page";

/** Spends the code of a link. Where there is none, or it is spent, says where to get one. */
export function SignIn({ code, onEnter }: { code?: string; onEnter: () => void }) {
  const { t } = useTranslation();
  const [typed, setTyped] = useState("");
  const { mutate, isPending, error } = useMutation({
    mutationFn: (typed: string) => logIn({ body: entryIn(typed) }),
    onSuccess: onEnter,
  });
  const why = useReason(error);
  const isTried = useRef(false);

  useEffect(() => {
    if (code !== undefined && !isTried.current) {
      isTried.current = true;
      mutate(code);
    }
  }, [code, mutate]);

  return (
    <Container size="xs" py="xl">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          mutate(typed);
        }}
      >
        <Stack>
          <Title order={1}>{t("signIn.title")}</Title>
          <Text>{t("signIn.text")}</Text>
          {error !== null && (
            <Alert color="red" role="alert">
              {t("signIn.failed", { why })}
            </Alert>
          )}
          <TextInput
            label={t("signIn.code")}
            value={typed}
            onChange={(event) => setTyped(event.currentTarget.value)}
            autoComplete="off"
            required
          />
          <Button type="submit" loading={isPending}>
            {t("signIn.open")}
          </Button>
        </Stack>
      </form>
    </Container>
  );
}
