import { useTranslation } from "react-i18next";
import type { DoneCheck, Scope } from "@/shared/api";
import { plain } from "@/shared/i18n/typography";
import { checkLine } from "./checks";

/** Who carries a subtask out, what its scope is and how it is checked, as far as that is known. */
export type Bounded = Readonly<{
  agent?: string;
  tool?: string;
  scope?: Scope;
  done_when?: readonly DoneCheck[];
}>;

/** What a subtask may do without a question, by what it is about. */
export function useScopeParts(
  form: "long" | "short" = "long",
): (subtask: Bounded) => [string, readonly string[]][] {
  const { t } = useTranslation();
  const names = form === "long" ? "plan.scope" : "plan.scope.short";
  const named = (values: readonly string[] | undefined, unsaid: string) =>
    values === undefined ? [unsaid] : values.length > 0 ? values : [plain(t("plan.scope.none"))];
  return ({ agent, tool, scope, done_when = [] }) => {
    const worker = agent ?? tool;
    const { paths, commands = [], tools, network = false } = scope ?? {};
    const hosts = Array.isArray(network)
      ? network
      : network
        ? [plain(t("plan.scope.anyHost"))]
        : [];
    const parts: [string, readonly string[]][] = [
      [
        t(`${names}.paths`),
        worker === undefined ? [] : named(paths, plain(t("plan.scope.anyPath"))),
      ],
      [t(`${names}.commands`), commands],
      [
        t(`${names}.tools`),
        agent === undefined ? [] : named(tools, plain(t("plan.scope.anyTool"))),
      ],
      [t(`${names}.network`), hosts],
      [t(`${names}.checks`), done_when.map(checkLine)],
    ];
    return parts
      .filter(([, values]) => values.length > 0)
      .map(([name, values]) => [plain(name), values]);
  };
}
