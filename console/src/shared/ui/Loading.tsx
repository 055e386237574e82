import { Loader } from "@mantine/core";
import { useTranslation } from "react-i18next";

/** Something is on its way. */
export function Loading() {
  const { t } = useTranslation();
  // A label needs a role: by itself the loader is a span, which may not have one.
  return <Loader role="progressbar" aria-label={t("common.loading")} />;
}
