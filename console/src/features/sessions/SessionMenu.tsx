import { ActionIcon, Menu } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { Link, useNavigate } from "react-router";
import { deleteSession, listSessionsQueryKey, type SessionView } from "@/shared/api";
import { useMay } from "@/shared/me";
import { Confirm } from "@/shared/ui";
import { EditSession } from "./EditSession";

/** What can be done with a session as a whole. */
export function SessionMenu({ session }: { session: SessionView }) {
  const { t } = useTranslation();
  const mayEdit = useMay("operator");
  const [isEdited, edit] = useDisclosure(false);
  const [isDeleted, deletion] = useDisclosure(false);
  const { mutate, error, isPending, reset } = useDeletion(session.session_id);

  return (
    <>
      <Menu position="bottom-end">
        <Menu.Target>
          <ActionIcon variant="default" size="lg" aria-label={t("sessions.more")}>
            ⋯
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          {mayEdit && <Menu.Item onClick={edit.open}>{t("sessions.edit")}</Menu.Item>}
          <Menu.Item component={Link} to={`/settings/rules?session=${session.session_id}`}>
            {t("sessions.rules")}
          </Menu.Item>
          {mayEdit && (
            <Menu.Item
              color="red"
              onClick={() => {
                reset();
                deletion.open();
              }}
            >
              {t("sessions.delete")}
            </Menu.Item>
          )}
        </Menu.Dropdown>
      </Menu>
      {isEdited && <EditSession session={session} onClose={edit.close} />}
      <Confirm
        question={isDeleted ? t("sessions.deleteSure") : undefined}
        action={t("sessions.delete")}
        error={error}
        isPending={isPending}
        onConfirm={() => mutate()}
        onClose={deletion.close}
      />
    </>
  );
}

function useDeletion(sessionId: string) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () => deleteSession({ path: { session_id: sessionId } }),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: listSessionsQueryKey() });
      void navigate("/sessions", { replace: true });
    },
  });
}
