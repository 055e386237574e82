import { Select, Stack, TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { EDITORS, isEditor, useEditor } from "@/shared/ui";

const OFF = "";
const OWN = "own";

/** What is chosen for this browser alone: the editor that changed files are opened in. */
export function Browser() {
  const { t } = useTranslation();
  const [kept, keep] = useEditor();
  const [typed, setTyped] = useState(kept);
  const isKnown = kept === OFF || Object.values(EDITORS).includes(kept);
  const [isOwn, setOwn] = useState(!isKnown);
  const isWrong = typed !== "" && !isEditor(typed);

  function choose(next: string | null): void {
    setOwn(next === OWN);
    if (next !== OWN) {
      keep(next ?? OFF);
    }
  }

  function type(next: string): void {
    setTyped(next);
    keep(isEditor(next) ? next : OFF);
  }

  return (
    <Stack gap="sm" maw="36rem">
      <Select
        label={t("settings.editor.label")}
        description={t("settings.editor.hint")}
        data={[
          { value: OFF, label: t("settings.editor.off") },
          ...Object.entries(EDITORS).map(([label, value]) => ({ value, label })),
          { value: OWN, label: t("settings.editor.own") },
        ]}
        value={isOwn ? OWN : kept}
        onChange={choose}
        allowDeselect={false}
      />
      {isOwn && (
        <TextInput
          label={t("settings.editor.address")}
          description={t("settings.editor.addressHint")}
          placeholder="vscode://vscode-remote/ssh-remote+host{path}:{line}"
          value={typed}
          error={isWrong && t("settings.editor.wrong")}
          onChange={(event) => type(event.currentTarget.value)}
          autoComplete="off"
        />
      )}
    </Stack>
  );
}
