import { Button, Drawer, Group, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useTranslation } from "react-i18next";
import type { ApprovalView } from "@/shared/api";
import { useMay } from "@/shared/me";
import { OpenQuestion, useOpenQuestions } from "@/shared/slots";
import { onOneLine, StateMark, visible } from "@/shared/ui";
import classes from "./Sessions.module.css";

/** What waits for a decision, in view wherever one looks; one answer leads to the next question. */
export function DecisionBar({ sessionId }: { sessionId: string }) {
  const { t } = useTranslation();
  const asked = useOpenQuestions(sessionId);
  const mayAnswer = useMay("operator");
  const [isOpen, { open, close }] = useDisclosure(false);
  const [first] = asked;
  if (first === undefined || !mayAnswer) {
    return null;
  }
  return (
    <>
      <div className={classes.bar} role="status">
        <Group gap="xs" wrap="nowrap" style={{ minWidth: 0 }}>
          <StateMark status="waiting" size={16} />
          <Text size="sm" fw={600} style={{ whiteSpace: "nowrap" }}>
            {t("sessions.waits", { count: asked.length })}
          </Text>
          <Text size="sm" truncate>
            {visible(first.subject)} {onOneLine(aimOf(first))}
          </Text>
        </Group>
        <Button size="xs" onClick={open}>
          {t("chat.decide")}
        </Button>
      </div>
      <Drawer
        opened={isOpen}
        onClose={close}
        position="bottom"
        styles={{ content: { height: "auto", maxHeight: "75%" } }}
        title={t("sessions.waits", { count: asked.length })}
      >
        <OpenQuestion
          approval={first}
          onDone={() => {
            if (asked.length === 1) {
              close();
            }
          }}
        />
      </Drawer>
    </>
  );
}

/** What a call is about, in a few words. */
function aimOf({ arguments: given = {} }: ApprovalView): string {
  const found = [given.command, given.path].find((word) => typeof word === "string");
  return typeof found === "string" ? found : "";
}
