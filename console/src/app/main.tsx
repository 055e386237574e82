import "@mantine/core/styles.css";
import "@mantine/notifications/styles.css";
import "@xyflow/react/dist/style.css";
import "./main.css";

import { setNonce } from "get-nonce";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "@/shared/i18n";
import { App } from "./App";
import { nonceOf, onCode, takeCode } from "./page";

const root = document.getElementById("root");
if (root !== null) {
  const nonce = nonceOf(document);
  // What holds the page still under a dialog writes a style element, too.
  setNonce(nonce);
  const page = createRoot(root);
  const show = (code?: string) =>
    page.render(
      <StrictMode>
        <App nonce={nonce} entry={code === undefined ? undefined : { code }} />
      </StrictMode>,
    );
  onCode(window, show);
  show(takeCode(window));
}
