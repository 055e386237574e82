import "@mantine/core/styles.css";
import "@mantine/notifications/styles.css";
import "@xyflow/react/dist/style.css";
import "./main.css";

import { setNonce } from "get-nonce";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "@/shared/i18n";
import { App } from "./App";
import { nonceOf, takeCode } from "./page";

const root = document.getElementById("root");
if (root !== null) {
  const nonce = nonceOf(document);
  // What holds the page still under a dialog writes a style element, too.
  setNonce(nonce);
  createRoot(root).render(
    <StrictMode>
      <App nonce={nonce} code={takeCode(window)} />
    </StrictMode>,
  );
}
