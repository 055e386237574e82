import { Autocomplete, JsonInput, MultiSelect, NumberInput, Select } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { RetryPolicy, Subtask } from "@/shared/api";
import { wordOf } from "@/shared/i18n/words";
import { Code, visible } from "@/shared/ui";
import classes from "./DraftList.module.css";

const TYPES = ["action", "decision", "validation"];
const ON_REJECT = ["skip", "fail"] as const;
const AFTER_SKIPPED = ["skip", "run"] as const;
/** What a failure can be of, as far as a retry may help. */
const CATEGORIES = [
  "environment",
  "dependency",
  "validation",
  "logic",
  "timeout",
  "resource",
  "quota",
  "permission",
  "policy",
  "network",
  "unknown",
];
const DAY = 86_400;

/** What kind of subtask it is, what it is given, and what happens when it does not go well. */
export function CourseFields({
  subtask,
  inputs,
  inputsError,
  onInputs,
  onChange,
}: {
  subtask: Subtask;
  /** As they are typed. */
  inputs: string;
  inputsError?: string;
  onInputs: (text: string) => void;
  onChange: (change: Partial<Subtask>) => void;
}) {
  const { t } = useTranslation();
  const { type = "action", timeout, on_reject, after_skipped } = subtask;
  return (
    <details className={classes.wide} open={isSet(subtask) || undefined}>
      <summary>{t("plan.field.more")}</summary>
      <div className={classes.fields}>
        <Autocomplete
          label={t("plan.field.type")}
          data={TYPES}
          renderOption={({ option: { value } }) => wordOf(t, "type", value)}
          value={type}
          onChange={(type) => onChange({ type: type.trim() })}
        />
        <NumberInput
          label={t("plan.field.timeout")}
          value={timeout ?? ""}
          min={0.1}
          max={DAY}
          onChange={(next) => onChange({ timeout: numberIn(next) })}
        />
        <RetryFields
          policy={subtask.retry_policy}
          onChange={(retry_policy) => onChange({ retry_policy })}
        />
        <Select
          label={t("plan.field.onReject")}
          data={ON_REJECT.map((value) => ({ value, label: t(`plan.onReject.${value}`) }))}
          value={on_reject ?? "skip"}
          allowDeselect={false}
          onChange={(word) => onChange({ on_reject: word === "fail" ? "fail" : undefined })}
        />
        <Select
          label={t("plan.field.afterSkipped")}
          data={AFTER_SKIPPED.map((value) => ({ value, label: t(`plan.afterSkipped.${value}`) }))}
          value={after_skipped ?? "skip"}
          allowDeselect={false}
          onChange={(word) => onChange({ after_skipped: word === "run" ? "run" : undefined })}
        />
        <JsonInput
          className={classes.wide}
          label={t("plan.field.inputs")}
          description={t("plan.field.inputsHint")}
          value={inputs}
          error={inputsError}
          onChange={onInputs}
          autosize
          minRows={2}
          maxRows={16}
          styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
        />
        {visible(inputs) !== inputs && (
          <div className={classes.wide}>
            <Code text={inputs} />
          </div>
        )}
      </div>
    </details>
  );
}

/** How often and when a failed subtask is tried again by itself. */
function RetryFields({
  policy,
  onChange,
}: {
  policy: RetryPolicy | undefined;
  onChange: (policy: RetryPolicy | undefined) => void;
}) {
  const { t } = useTranslation();
  const { max_attempts = 1, delay = 1, backoff = 2, on = [] } = policy ?? {};
  const change = (part: RetryPolicy) => onChange({ ...policy, ...part });
  return (
    <>
      <NumberInput
        label={t("plan.field.attempts")}
        value={max_attempts}
        min={1}
        max={20}
        allowDecimal={false}
        onChange={(next) => {
          const attempts = numberIn(next) ?? 1;
          onChange(attempts === 1 ? undefined : { ...policy, max_attempts: attempts });
        }}
      />
      {max_attempts > 1 && (
        <>
          <NumberInput
            label={t("plan.field.delay")}
            value={delay}
            min={0}
            max={DAY}
            onChange={(next) => change({ delay: numberIn(next) })}
          />
          <NumberInput
            label={t("plan.field.backoff")}
            value={backoff}
            min={1}
            max={10}
            onChange={(next) => change({ backoff: numberIn(next) })}
          />
          <MultiSelect
            label={t("plan.field.retryOn")}
            placeholder={on.length === 0 ? t("plan.field.transient") : undefined}
            data={[...new Set([...CATEGORIES, ...on])].map((value) => ({
              value,
              label: wordOf(t, "category", value),
            }))}
            value={[...on]}
            onChange={(on) => change({ on })}
            clearable
          />
        </>
      )}
    </>
  );
}

function numberIn(value: string | number): number | undefined {
  return typeof value === "number" ? value : undefined;
}

/** Whether anything of it is otherwise than it would be without a word. */
function isSet({
  type,
  timeout,
  inputs,
  retry_policy,
  on_reject,
  after_skipped,
}: Subtask): boolean {
  const others = [timeout, inputs, retry_policy, on_reject, after_skipped];
  return (type ?? "action") !== "action" || others.some((value) => value !== undefined);
}
