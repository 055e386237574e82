import { Text, Title } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { estimate, plain } from "@/shared/i18n/typography";
import { type Bounded, countBlanks, Json, visible } from "@/shared/ui";
import { ScopeAsked } from "./ScopeAsked";

/** What is decided with a subtask: what it does, by whom, after what, and what it may touch. */
export function SubtaskAsked({ subtask }: { subtask: Record<string, unknown> }) {
  const { t, i18n } = useTranslation();
  const { id, description, agent, tool, estimated_time, dependencies, scope, ...others } = subtask;
  const after = Array.isArray(dependencies) ? dependencies.join(", ") : "";
  const time = plain(estimate(String(estimated_time ?? ""), i18n.language));
  const facts = [agent ?? tool, time, after && t("plan.after", { names: after })];
  const rest = Object.entries(others).filter(([name, value]) => !isUsual(name, value));
  return (
    <div>
      <Title order={3} size="sm" style={{ whiteSpace: "pre-wrap" }}>
        {countBlanks(visible(`${id}: ${description}`))}
      </Title>
      <Text size="xs" c="dimmed">
        {visible(facts.filter(Boolean).join(" · "))}
      </Text>
      <ScopeAsked subtask={{ agent, tool, scope } as Bounded} />
      {rest.length > 0 && <Json value={Object.fromEntries(rest)} isWhole />}
    </div>
  );
}

/** What is so of nearly every subtask says nothing. */
function isUsual(name: string, value: unknown): boolean {
  const isAsked = name === "approval_required";
  return value === false || isAsked || (name === "type" && value === "action");
}
