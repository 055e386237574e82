import {
  JsonInput,
  NumberInput,
  SegmentedControl,
  Select,
  Stack,
  Switch,
  Textarea,
} from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { listToolsOptions } from "@/shared/api";
import { objectIn } from "@/shared/json";
import { Code, visible } from "@/shared/ui";
import { type Field, fieldsOf, withField } from "./fields";

/** Other arguments for a call: in a form where they are flat, and always as JSON. */
export function EditArguments({
  tool,
  text,
  onChange,
}: {
  tool: string | undefined;
  text: string;
  onChange: (text: string) => void;
}) {
  const { t } = useTranslation();
  const [asJson, setAsJson] = useState(false);
  const tools = useQuery({ ...listToolsOptions(), staleTime: Number.POSITIVE_INFINITY });
  const parameters = tools.data?.tools.find(({ name }) => name === tool)?.parameters ?? {};
  const fields = fieldsOf(parameters);
  const given = objectIn(text);
  const isJson = asJson || fields.length === 0 || given === undefined;

  return (
    <Stack gap="xs">
      <SegmentedControl
        aria-label={t("approvals.editAs")}
        size="xs"
        value={isJson ? "json" : "form"}
        onChange={(way) => setAsJson(way === "json")}
        data={[
          {
            value: "form",
            label: t("approvals.form"),
            disabled: fields.length === 0 || given === undefined,
          },
          { value: "json", label: "JSON" },
        ]}
      />
      {isJson ? (
        <JsonInput
          label={t("approvals.arguments")}
          autosize
          minRows={4}
          maxRows={20}
          value={text}
          onChange={onChange}
          error={given === undefined && t("approvals.notJson")}
          styles={{ input: { fontFamily: "monospace" } }}
        />
      ) : (
        fields.map((field) => (
          <OneField
            key={field.name}
            field={field}
            value={given[field.name]}
            onChange={(value) => onChange(JSON.stringify(withField(given, field, value), null, 2))}
          />
        ))
      )}
      {visible(text) !== text && (
        <div>
          {t("approvals.unseen")}
          <Code text={text} />
        </div>
      )}
    </Stack>
  );
}

function OneField({
  field: { name, kind, choices, description, isRequired },
  value,
  onChange,
}: {
  field: Field;
  value: unknown;
  onChange: (value: unknown) => void;
}) {
  const common = { label: name, description, required: isRequired };
  switch (kind) {
    case "boolean":
      return (
        <Switch
          label={name}
          description={description}
          checked={value === true}
          onChange={(event) => onChange(event.currentTarget.checked)}
        />
      );
    case "number":
      return (
        <NumberInput
          {...common}
          value={typeof value === "number" ? value : ""}
          onChange={(next) => onChange(typeof next === "number" ? next : undefined)}
        />
      );
    case "choice":
      return (
        <Select
          {...common}
          data={[...choices]}
          value={typeof value === "string" ? value : null}
          onChange={onChange}
          clearable={!isRequired}
        />
      );
    case "text":
      return (
        <Textarea
          {...common}
          autosize
          maxRows={16}
          value={typeof value === "string" ? value : ""}
          onChange={(event) => onChange(event.currentTarget.value)}
        />
      );
  }
}
