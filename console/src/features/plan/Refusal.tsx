import { Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { Refused } from "@/shared/api";
import { Failure } from "@/shared/ui";

/** Why the server did not do what was asked; where somebody was faster, that too. */
export function Refusal({ error }: { error: unknown }) {
  const { t } = useTranslation();
  if (error === null) {
    return null;
  }
  return (
    <Stack gap={4}>
      <Failure error={error} />
      {error instanceof Refused && error.status === 409 && (
        <Text size="sm">{t("plan.conflict")}</Text>
      )}
    </Stack>
  );
}
