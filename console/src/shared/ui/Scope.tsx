import { useTranslation } from "react-i18next";
import type { Scope } from "@/shared/api";

/** What a scope lets be done without a question, by what it is about; what it has none of is left out. */
export function useScopeParts(): (scope: Scope | undefined) => [string, readonly string[]][] {
  const { t } = useTranslation();
  return (scope) => {
    const { paths = [], commands = [], tools = [], network = false } = scope ?? {};
    const hosts = Array.isArray(network) ? network : network ? [t("plan.scope.anyHost")] : [];
    const parts: [string, readonly string[]][] = [
      [t("plan.scope.paths"), paths],
      [t("plan.scope.commands"), commands],
      [t("plan.scope.tools"), tools],
      [t("plan.scope.network"), hosts],
    ];
    return parts.filter(([, values]) => values.length > 0);
  };
}
