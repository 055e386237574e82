import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";
import { po } from "./po.ts";
import { size } from "./size.ts";

const OUT = new URL("../src/gonogo/server/console", import.meta.url).pathname;
/** Where `npm run dev` finds a server. */
const SERVER = process.env.GONOGO_URL ?? "http://127.0.0.1:8001";

export default defineConfig({
  plugins: [react(), po(), size(OUT)],
  resolve: { alias: { "@": new URL("src", import.meta.url).pathname } },
  base: "/",
  build: {
    outDir: OUT,
    emptyOutDir: true,
    // Older targets have light-dark() rewritten into something that Mantine's schemes do not switch.
    cssTarget: ["chrome123", "edge123", "firefox120", "safari17.5"],
    chunkSizeWarningLimit: 1500,
    reportCompressedSize: true,
  },
  server: {
    fs: { allow: [".."] },
    proxy: { "/api": { target: SERVER, changeOrigin: false, ws: true } },
  },
  // No test leaves anything behind: one worker for all files costs half of one for each.
  test: { environment: "node", isolate: false },
});
