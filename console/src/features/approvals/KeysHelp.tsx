import { Kbd, Modal, Table, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { KEYS } from "./keys";

/** Which keys there are. */
export function KeysHelp({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const { t } = useTranslation();
  return (
    <Modal opened={opened} onClose={onClose} title={t("approvals.keys")}>
      <Table>
        <Table.Tbody>
          {KEYS.map((key) => (
            <Table.Tr key={key}>
              <Table.Th scope="row">
                <Kbd>{key}</Kbd>
              </Table.Th>
              <Table.Td>{t(`approvals.key.${key}`)}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      <Text size="sm" c="dimmed" mt="sm">
        {t("approvals.keysPlace")}
      </Text>
    </Modal>
  );
}
