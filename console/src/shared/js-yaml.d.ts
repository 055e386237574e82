declare module "js-yaml" {
  /** Only what JSON can say. */
  export const JSON_SCHEMA: unknown;
  export class YAMLException extends Error {
    mark?: { line: number };
    reason: string;
  }
  export function load(text: string, options: { schema: unknown }): unknown;
}
