import { Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { Link } from "react-router";
import type { SessionSummary, SessionView } from "@/shared/api";
import { CopyId, StatusBadge, useFigures, visible, When } from "@/shared/ui";
import classes from "./Sessions.module.css";

const PATH_PARTS = 2;

/** A session in a line: how it stands, how far it is, what it took, when it last changed. */
export function SessionRow({ session }: { session: SessionView }) {
  const { t } = useTranslation();
  const { session_id, title, workspace, updated_at, summary } = session;
  return (
    <li className={classes.row}>
      <div className={classes.what}>
        <Link to={`/sessions/${session_id}`} className={classes.title}>
          {visible(title || t("sessions.untitled"))}
        </Link>
        {summary && summary.state !== "new" && <Standing summary={summary} />}
      </div>
      <div className={classes.facts}>
        <Text span size="xs" c="dimmed" title={workspace} className={classes.folder}>
          {visible(workspace.split("/").slice(-PATH_PARTS).join("/"))}
        </Text>
        <CopyId id={session_id} />
        <Cost dollars={summary?.cost ?? 0} />
        <When moment={updated_at} size="xs" c="dimmed" />
      </div>
    </li>
  );
}

/** The state, and how many subtasks of its plan are done while that says something. */
function Standing({ summary: { state, waiting, done, total } }: { summary: SessionSummary }) {
  const { t } = useTranslation();
  const isCounted = total > 0 && state !== "done";
  return (
    <>
      <StatusBadge of="session" status={state} />
      {(isCounted || waiting > 1) && (
        <Text span size="xs" c="dimmed">
          {[
            waiting > 1 && t("sessions.questions", { count: waiting }),
            isCounted && t("plan.over", { done, total }),
          ]
            .filter(Boolean)
            .join(" · ")}
        </Text>
      )}
    </>
  );
}

function Cost({ dollars }: { dollars: number }) {
  const figures = useFigures();
  return dollars === 0 ? null : (
    <Text span size="xs" c="dimmed">
      {figures.dollars(dollars)}
    </Text>
  );
}
