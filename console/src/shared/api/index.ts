/** The server's API: functions and types are generated from its OpenAPI document. */

import { client } from "./generated/client.gen";
import type { Problem } from "./generated/types.gen";
import { keeping } from "./kept";

export * from "./generated/@tanstack/react-query.gen";
export * from "./generated/sdk.gen";
export type * from "./generated/types.gen";

/** What a request that was refused throws. */
export class Refused extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, detail: string) {
    super(detail);
    this.name = "Refused";
    this.status = status;
    this.code = code;
  }
}

function isProblem(error: unknown): error is Problem {
  return typeof error === "object" && error !== null && "detail" in error && "code" in error;
}

/** Read the answer of a request that was refused. */
export async function refusalOf(response: Response): Promise<Refused> {
  const body: unknown = await response.json().catch(() => null);
  return refusal(body, response.status);
}

function refusal(body: unknown, status: number): Refused {
  return isProblem(body)
    ? new Refused(status, body.code, body.detail)
    : new Refused(status, "unreachable", "");
}

client.setConfig({ baseUrl: "", throwOnError: true, fetch: keeping((request) => fetch(request)) });
client.interceptors.error.use((error, response) =>
  error instanceof Refused ? error : refusal(error, response?.status ?? 0),
);

/** The text of whatever was thrown, for people. */
export function textOf(error: unknown): string {
  return error instanceof Error && error.message !== "" ? error.message : String(error);
}
