import "./mantine.css";
import "./main.css";

import { setNonce } from "get-nonce";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ready } from "@/shared/i18n";
import { App } from "./App";
import { nonceOf, onCode, takeCode } from "./page";

const root = document.getElementById("root");
if (root !== null) {
  const nonce = nonceOf(document);
  // What holds the page still under a dialog writes a style element, too.
  setNonce(nonce);
  const page = createRoot(root);
  const show = async (code?: string) => {
    await ready;
    page.render(
      <StrictMode>
        <App nonce={nonce} entry={code === undefined ? undefined : { code }} />
      </StrictMode>,
    );
  };
  onCode(window, show);
  void show(takeCode(window));
}
