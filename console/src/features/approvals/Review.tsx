import { Alert, List, Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { ApprovalView } from "@/shared/api";
import { visible, When } from "@/shared/ui";

/** Who decides a question that rules of review speak of, and who has. */
export function Review({ approval }: { approval: ApprovalView }) {
  const { t } = useTranslation();
  const { review, requested_by = "", votes = [], escalated_at } = approval;
  if (review === undefined) {
    return null;
  }
  const barred = review.not_requester ? [requested_by, ...(review.asked_too ?? [])] : [];
  const named = review.reviewers ?? review.seen_by ?? [];
  const who = named.filter((name) => !barred.includes(name));
  const rules = [
    who.length > 0 && t("approvals.mayApprove", { who: who.map(visible).join(", ") }),
    review.role === "admin" && t("approvals.adminsOnly"),
    review.not_requester && t("approvals.notRequester"),
    review.asked_too && t("approvals.askedToo", { who: review.asked_too.map(visible).join(", ") }),
    review.escalates_to &&
      t("approvals.escalatesTo", { who: review.escalates_to.map(visible).join(", ") }),
  ].filter((rule) => typeof rule === "string");
  return (
    <Alert title={t("approvals.review", { votes: votes.length, needed: review.needed })}>
      <Stack gap={4}>
        {review.problem !== undefined && (
          <Text size="sm" fw={600}>
            {visible(review.problem)}
          </Text>
        )}
        <List size="sm">
          {rules.map((rule) => (
            <List.Item key={rule}>{rule}</List.Item>
          ))}
          {votes.map(({ name, created_at }) => (
            <List.Item key={name}>
              {t("approvals.voted", { who: visible(name) })}{" "}
              <When moment={created_at} span size="sm" />
            </List.Item>
          ))}
          {escalated_at !== undefined && (
            <List.Item>
              {t("approvals.escalated")} <When moment={escalated_at} span size="sm" />
            </List.Item>
          )}
        </List>
      </Stack>
    </Alert>
  );
}
