import {
  Button,
  CloseButton,
  Fieldset,
  Group,
  NumberInput,
  Select,
  Switch,
  TagsInput,
  Text,
  TextInput,
} from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { DoneCheck, Subtask } from "@/shared/api";
import { Code, checkLine, visible } from "@/shared/ui";
import { CHECKS, type CheckKind, checkOf, kindOf } from "./checks";
import classes from "./DraftList.module.css";

const MOST = 20;
const LONGEST = 3_600;

/** What has to hold before the subtask counts as done. */
export function CheckFields({
  subtask: { done_when: checks = [], must_change = false },
  error,
  onChange,
}: {
  subtask: Subtask;
  error?: string;
  onChange: (change: Partial<Subtask>) => void;
}) {
  const { t } = useTranslation();
  const set = (next: readonly DoneCheck[]) =>
    onChange({ done_when: next.length > 0 ? [...next] : undefined });
  return (
    <Fieldset className={classes.wide} variant="unstyled" legend={<b>{t("plan.scope.checks")}</b>}>
      {checks.map((check, place) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: checks have no names, and their order stays
        <div key={place}>
          <Group gap="xs" align="end" mt={4}>
            <Select
              label={t("plan.check.kind")}
              data={CHECKS.map((kind) => ({ value: kind, label: t(`plan.check.${kind}`) }))}
              value={kindOf(check)}
              allowDeselect={false}
              onChange={(kind) => set(checks.with(place, checkOf(kind as CheckKind)))}
            />
            <CheckParts check={check} onChange={(next) => set(checks.with(place, next))} />
            <CloseButton
              aria-label={t("plan.check.remove", { number: place + 1 })}
              onClick={() => set(checks.toSpliced(place, 1))}
            />
          </Group>
          {visible(checkLine(check)) !== checkLine(check) && <Code text={checkLine(check)} />}
        </div>
      ))}
      {error && (
        <Text size="xs" c="red" role="alert">
          {error}
        </Text>
      )}
      <Group mt="xs">
        <Button
          size="compact-sm"
          variant="default"
          disabled={checks.length >= MOST}
          onClick={() => set([...checks, checkOf("command")])}
        >
          {t("plan.check.add")}
        </Button>
        <Switch
          label={t("plan.check.mustChange")}
          checked={must_change}
          onChange={({ currentTarget: { checked } }) =>
            onChange({ must_change: checked || undefined })
          }
        />
      </Group>
    </Fieldset>
  );
}

/** The fields of one check, by its kind. */
function CheckParts({
  check,
  onChange,
}: {
  check: DoneCheck;
  onChange: (check: DoneCheck) => void;
}) {
  const { t } = useTranslation();
  const line = (label: string, value: string, change: (text: string) => void) => (
    <TextInput
      flex={1}
      miw="12rem"
      label={label}
      value={value}
      onChange={({ currentTarget }) => change(currentTarget.value)}
    />
  );
  const { file_contains, unchanged } = check;
  if (file_contains !== undefined) {
    return (
      <>
        {line(t("plan.check.path"), file_contains.path, (path) =>
          onChange({ file_contains: { ...file_contains, path } }),
        )}
        {line(t("plan.check.text"), file_contains.text, (text) =>
          onChange({ file_contains: { ...file_contains, text } }),
        )}
      </>
    );
  }
  if (unchanged !== undefined) {
    return (
      <TagsInput
        flex={1}
        label={t("plan.check.paths")}
        value={unchanged}
        splitChars={[]}
        acceptValueOnBlur
        onChange={(unchanged) => onChange({ unchanged })}
      />
    );
  }
  if (check.file_exists !== undefined) {
    return line(t("plan.check.path"), check.file_exists, (file_exists) =>
      onChange({ file_exists }),
    );
  }
  if (check.ask !== undefined) {
    return line(t("plan.check.question"), check.ask, (ask) => onChange({ ask }));
  }
  return (
    <>
      {line(t("plan.check.words"), check.command ?? "", (command) =>
        onChange({ ...check, command }),
      )}
      <NumberInput
        w="8rem"
        label={t("plan.check.timeout")}
        value={check.timeout ?? ""}
        min={0.1}
        max={LONGEST}
        onChange={(next) =>
          onChange({ ...check, timeout: typeof next === "number" ? next : undefined })
        }
      />
    </>
  );
}
