import { Anchor } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { Link } from "react-router";
import type { ApprovalView } from "@/shared/api";
import { wordOf } from "@/shared/i18n/words";
import { visible, When } from "@/shared/ui";
import classes from "./Approvals.module.css";

/** Who asks, by which rule, where, and what a decision is bound to. */
export function Facts({ approval, title }: { approval: ApprovalView; title?: string }) {
  const { t } = useTranslation();
  const { details, session_id, subtask_id, requested_by, digest, open_comments } = approval;
  return (
    <dl className={classes.facts}>
      <Fact name={t("approvals.rule")}>
        {typeof details.rule === "string" && (
          <code>{visible(wordOf(t, "rule", details.rule))}</code>
        )}
      </Fact>
      <Fact name={t("approvals.agent")}>
        {typeof details.agent === "string" && visible(details.agent)}
      </Fact>
      <Fact name={t("approvals.madeBy")}>
        {typeof details.made_by === "string" && visible(details.made_by)}
      </Fact>
      <Fact name={t("approvals.editedBy")}>
        {typeof details.edited_by === "string" && visible(details.edited_by)}
      </Fact>
      <Fact name={t("approvals.session")}>
        <Anchor component={Link} to={`/sessions/${session_id}`} size="sm">
          {visible(title ?? session_id)}
        </Anchor>
      </Fact>
      <Fact name={t("approvals.subtask")}>{subtask_id && visible(subtask_id)}</Fact>
      <Fact name={t("approvals.requestedBy")}>{requested_by && visible(requested_by)}</Fact>
      <Fact name={t("approvals.asked")}>
        <When moment={approval.created_at} size="sm" />
      </Fact>
      <Fact name={t("approvals.comments")}>
        {open_comments ? String(open_comments) : undefined}
      </Fact>
      <Fact name={t("approvals.digest")}>
        <code>{digest}</code>
      </Fact>
    </dl>
  );
}

/** One fact of a list; what is not known is left out. */
export function Fact({ name, children }: { name: string; children: ReactNode }) {
  if (children === undefined || children === "" || children === false) {
    return null;
  }
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}
