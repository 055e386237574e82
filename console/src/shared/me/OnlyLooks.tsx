import { Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { useMay, useMe } from "./useMe";

/** Says to those whose role only looks that it does; nothing to others. */
export function OnlyLooks() {
  const { t } = useTranslation();
  const me = useMe();
  const mayAct = useMay("operator");
  return me === undefined || mayAct ? null : (
    <Text size="sm" c="dimmed">
      {t("app.cannot", { role: t(`app.role.${me.role}`) })}
    </Text>
  );
}
