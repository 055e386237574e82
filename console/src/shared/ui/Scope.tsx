import { useTranslation } from "react-i18next";
import type { Scope } from "@/shared/api";

/** What a scope lets be done without a question, by what it is about; what it has none of is left out. */
export function useScopeParts(
  form: "long" | "short" = "long",
): (scope: Scope | undefined) => [string, readonly string[]][] {
  const { t } = useTranslation();
  const names = form === "long" ? "plan.scope" : "plan.scope.short";
  return (scope) => {
    const { paths = [], commands = [], tools = [], network = false } = scope ?? {};
    const hosts = Array.isArray(network) ? network : network ? [t("plan.scope.anyHost")] : [];
    const parts: [string, readonly string[]][] = [
      [t(`${names}.paths`), paths],
      [t(`${names}.commands`), commands],
      [t(`${names}.tools`), tools],
      [t(`${names}.network`), hosts],
    ];
    return parts.filter(([, values]) => values.length > 0);
  };
}
