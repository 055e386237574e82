import { CopyButton, UnstyledButton } from "@mantine/core";
import { useTranslation } from "react-i18next";
import classes from "./CopyId.module.css";

/** An id, small; a click copies it. */
export function CopyId({ id }: { id: string }) {
  const { t } = useTranslation();
  return (
    <CopyButton value={id}>
      {({ copied, copy }) => (
        <UnstyledButton
          className={classes.id}
          ff="monospace"
          fz="xs"
          c="dimmed"
          onClick={copy}
          title={copied ? t("common.copied") : t("common.copyOf", { what: id })}
        >
          {copied ? `✓ ${t("common.copied")}` : short(id)}
        </UnstyledButton>
      )}
    </CopyButton>
  );
}

/** The beginning and the end of an id: those made in the same moment differ at their ends. */
function short(id: string): string {
  return id.length > 16 ? `${id.slice(0, 6)}…${id.slice(-6)}` : id;
}
