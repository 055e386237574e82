/** The fields of a form, read from a tool's JSON Schema; what is not flat is edited as JSON. */

import { isObject } from "@/shared/json";

export type Field = {
  name: string;
  kind: "text" | "number" | "boolean" | "choice";
  choices: readonly string[];
  description?: string;
  isRequired: boolean;
};

type Schema = Readonly<Record<string, unknown>>;

const KINDS: Record<string, Field["kind"] | undefined> = {
  string: "text",
  integer: "number",
  number: "number",
  boolean: "boolean",
};

/** The flat parameters of a tool. */
export function fieldsOf(parameters: Schema): Field[] {
  const required = Array.isArray(parameters.required) ? parameters.required : [];
  const properties = isObject(parameters.properties) ? parameters.properties : {};
  return Object.entries(properties).flatMap(([name, schema]) => {
    const field = isObject(schema) ? fieldOf(schema) : undefined;
    return field === undefined ? [] : [{ ...field, name, isRequired: required.includes(name) }];
  });
}

function fieldOf(schema: Schema): Omit<Field, "name" | "isRequired"> | undefined {
  const description = typeof schema.description === "string" ? schema.description : undefined;
  const flat = flatOf(schema);
  if (Array.isArray(flat.enum) && flat.enum.every((choice) => typeof choice === "string")) {
    return { kind: "choice", choices: flat.enum, description };
  }
  const kind = typeof flat.type === "string" ? KINDS[flat.type] : undefined;
  return kind && { kind, choices: [], description };
}

/** What a parameter is when it is given at all. */
function flatOf(schema: Schema): Schema {
  const ways = Array.isArray(schema.anyOf) ? schema.anyOf.filter(isObject) : [];
  const given = ways.filter(({ type }) => type !== "null");
  return given.length === 1 && given[0] !== undefined ? given[0] : schema;
}

/** Arguments with another value of one field; an empty value that nobody needs is left out. */
export function withField(
  given: Readonly<Record<string, unknown>>,
  field: Field,
  value: unknown,
): Record<string, unknown> {
  const isEmpty = value === "" || value === null || value === undefined;
  if (isEmpty && !(field.isRequired && field.kind === "text")) {
    return Object.fromEntries(Object.entries(given).filter(([name]) => name !== field.name));
  }
  return { ...given, [field.name]: value };
}
