import { Button, Group, Modal, Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { Failure } from "./Loaded";

/** Asks before something that is not easily taken back. What went wrong is told where it was asked. */
export function Confirm({
  question,
  action,
  error,
  isPending,
  onConfirm,
  onClose,
}: {
  /** Without one, nothing is asked. */
  question?: string;
  action: string;
  error: unknown;
  isPending: boolean;
  onConfirm: () => void;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  return (
    <Modal opened={question !== undefined} onClose={onClose} title={action}>
      <Stack>
        <Text style={{ overflowWrap: "anywhere" }}>{question}</Text>
        {error !== null && <Failure error={error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose} data-autofocus>
            {t("common.cancel")}
          </Button>
          <Button color="red" loading={isPending} onClick={onConfirm}>
            {action}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
