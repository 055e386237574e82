import { MultiSelect, Switch, TagsInput, Text, Textarea, TextInput } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Scope, Subtask } from "@/shared/api";
import { CheckFields } from "./CheckFields";
import { CourseFields } from "./CourseFields";
import classes from "./DraftList.module.css";
import { type Draft, type Flaw, inputsOf } from "./drafts";
import { WorkerFields } from "./WorkerFields";

/** The fields of one subtask. */
export function DraftFields({
  draft,
  flaws,
  ids,
  agents,
  tools,
  onInputs,
  onChange,
}: {
  draft: Draft;
  flaws: readonly Flaw[];
  ids: readonly string[];
  agents: readonly string[];
  tools: readonly string[];
  onInputs: (text: string) => void;
  onChange: (change: Partial<Subtask>) => void;
}) {
  const { t } = useTranslation();
  const { subtask } = draft;
  const { dependencies = [], scope } = subtask;
  const wrong = (...kinds: Flaw["kind"][]) =>
    flaws
      .filter(({ kind }) => kinds.includes(kind))
      .map((flaw) => t(`plan.flaw.${flaw.kind}`, { about: "about" in flaw ? flaw.about : "" }))
      .join(" ") || undefined;
  const choices = [
    ...new Set([...ids.filter((id) => id !== subtask.id && id !== ""), ...dependencies]),
  ];

  return (
    <div className={classes.fields}>
      <TextInput
        label={t("plan.field.id")}
        value={subtask.id}
        error={wrong("noId", "badId", "takenId")}
        onChange={(event) => onChange({ id: event.currentTarget.value.trim() })}
      />
      <WorkerFields subtask={subtask} agents={agents} tools={tools} onChange={onChange} />
      <TextInput
        label={t("plan.field.time")}
        value={subtask.estimated_time ?? "5 min"}
        error={wrong("noTime")}
        onChange={(event) => onChange({ estimated_time: event.currentTarget.value })}
      />
      <Textarea
        className={classes.wide}
        label={t("plan.field.description")}
        value={subtask.description}
        error={wrong("noText", "longText")}
        onChange={(event) => onChange({ description: event.currentTarget.value })}
        autosize
        minRows={2}
        maxRows={12}
      />
      <MultiSelect
        className={classes.wide}
        label={t("plan.field.dependencies")}
        data={choices}
        value={[...dependencies]}
        error={wrong("itself", "unknown", "cycle")}
        onChange={(dependencies) => onChange({ dependencies })}
        searchable
        clearable
      />
      <TextInput
        className={classes.wide}
        label={t("plan.field.condition")}
        description={t("plan.field.conditionHint")}
        value={subtask.condition ?? ""}
        maxLength={2_000}
        onChange={(event) => onChange({ condition: event.currentTarget.value || undefined })}
      />
      <ScopeFields scope={scope} onChange={(scope) => onChange({ scope })} />
      <CheckFields subtask={subtask} error={wrong("noCheck")} onChange={onChange} />
      <Switch
        className={classes.wide}
        label={t("plan.field.approval")}
        checked={subtask.approval_required ?? false}
        onChange={(event) => onChange({ approval_required: event.currentTarget.checked })}
      />
      <CourseFields
        subtask={subtask}
        inputs={inputsOf(draft)}
        inputsError={wrong("noJson")}
        onInputs={onInputs}
        onChange={onChange}
      />
    </div>
  );
}

/** Lists by their names, with what it means to leave one out. */
const LISTS = [
  ["paths", "anyPath"],
  ["commands", undefined],
  ["tools", "anyTool"],
] as const;

/** What the approval of the plan is to grant to the subtask. */
function ScopeFields({
  scope,
  onChange,
}: {
  scope: Scope | undefined;
  onChange: (scope: Scope) => void;
}) {
  const { t } = useTranslation();
  const network = scope?.network ?? false;
  return (
    <>
      <Text size="sm" fw={600} className={classes.wide}>
        {t("plan.scope.title")}
      </Text>
      {LISTS.map(([name, unsaid]) => (
        <div key={name}>
          <TagsInput
            label={t(`plan.scope.${name}`)}
            value={[...(scope?.[name] ?? [])]}
            disabled={unsaid !== undefined && scope?.[name] === undefined}
            splitChars={[]}
            acceptValueOnBlur
            onChange={(values) => onChange({ ...scope, [name]: values })}
          />
          {unsaid !== undefined && (
            <Switch
              mt={4}
              label={t(`plan.scope.${unsaid}`)}
              checked={scope?.[name] === undefined}
              onChange={({ currentTarget }) =>
                onChange({ ...scope, [name]: currentTarget.checked ? undefined : [] })
              }
            />
          )}
        </div>
      ))}
      <div>
        <TagsInput
          label={t("plan.scope.network")}
          value={Array.isArray(network) ? [...network] : []}
          disabled={network === true}
          acceptValueOnBlur
          onChange={(hosts) => onChange({ ...scope, network: hosts.length > 0 ? hosts : false })}
        />
        <Switch
          mt={4}
          label={t("plan.scope.anyHost")}
          checked={network === true}
          onChange={(event) => onChange({ ...scope, network: event.currentTarget.checked })}
        />
      </div>
    </>
  );
}
