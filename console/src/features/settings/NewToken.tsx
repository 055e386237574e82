import { Alert, Button, CopyButton, Group, Select, Stack, Text, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { createToken, type NewToken as Wanted } from "@/shared/api";
import { ROLES } from "@/shared/me";
import { Code, Failure } from "@/shared/ui";

/** Makes a token. Its secret is held by this page alone, until one says that one has it. */
export function NewToken({ onMade }: { onMade: () => void }) {
  const { t } = useTranslation();
  const [name, setName] = useState("");
  const [role, setRole] = useState<Wanted["role"]>("operator");
  const { mutate, data, error, isPending, reset } = useMutation({
    mutationFn: () => createToken({ body: { name: name.trim(), role }, throwOnError: true }),
    gcTime: 0,
    onSuccess: () => {
      setName("");
      onMade();
    },
  });

  function submit(event: FormEvent): void {
    event.preventDefault();
    mutate();
  }

  if (data !== undefined) {
    return <Secret name={data.data.view.name} token={data.data.token} onHide={reset} />;
  }
  return (
    <form onSubmit={submit}>
      <Stack gap="xs">
        <Group align="flex-start">
          <TextInput
            label={t("settings.token.name")}
            description={t("settings.token.nameHint")}
            inputWrapperOrder={["label", "input", "description", "error"]}
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            autoComplete="off"
            required
            withAsterisk={false}
          />
          <Select
            label={t("settings.token.role")}
            data={ROLES.map((value) => ({ value, label: t(`settings.token.roles.${value}`) }))}
            value={role}
            onChange={(next) => setRole(next as Wanted["role"])}
            allowDeselect={false}
            w={260}
          />
        </Group>
        {error !== null && <Failure error={error} />}
        <Group>
          <Button type="submit" loading={isPending}>
            {t("settings.token.create")}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

function Secret({ name, token, onHide }: { name: string; token: string; onHide: () => void }) {
  const { t } = useTranslation();
  return (
    <Alert color="indigo" title={name} role="status">
      <Stack gap="xs">
        <Text size="sm">{t("settings.token.secret")}</Text>
        <Code text={token} />
        <Group gap="xs">
          <CopyButton value={token}>
            {({ copied, copy }) => (
              <Button size="xs" variant="default" onClick={copy}>
                {t(copied ? "common.copied" : "common.copy")}
              </Button>
            )}
          </CopyButton>
          <Button size="xs" variant="default" onClick={onHide}>
            {t("settings.token.hide")}
          </Button>
        </Group>
      </Stack>
    </Alert>
  );
}
