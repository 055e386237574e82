import { defineConfig } from "@hey-api/openapi-ts";

export default defineConfig({
  input: "../docs/reference/openapi.json",
  output: { path: "src/shared/api/generated", clean: true },
  parser: {
    filters: {
      // Streams are read by `shared/events`, which needs their types alone.
      operations: {
        exclude: ["GET /api/v1/sessions/{session_id}/events", "POST /api/v1/agent/message/stream"],
      },
      orphans: true,
    },
  },
  plugins: [
    "@hey-api/client-fetch",
    "@hey-api/typescript",
    "@hey-api/sdk",
    "@tanstack/react-query",
  ],
  logs: { level: "warn" },
});
