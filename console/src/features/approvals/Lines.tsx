import { Badge, Checkbox, Group, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { Link } from "react-router";
import type { ApprovalView } from "@/shared/api";
import { onOneLine, StatusBadge, visible, When } from "@/shared/ui";
import classes from "./Approvals.module.css";
import { Countdown } from "./Countdown";
import { type Line, linesOf } from "./lines";
import { aimOf } from "./matter";
import { useKindName } from "./useKindName";

/** Questions, a line each; identical ones are one. */
export function Lines({
  approvals,
  openId,
  titles,
  selected,
  onSelect,
}: {
  approvals: readonly ApprovalView[];
  openId?: string;
  titles: ReadonlyMap<string, string>;
  selected: ReadonlySet<string>;
  onSelect: (ids: readonly string[], isSelected: boolean) => void;
}) {
  const { t } = useTranslation();
  return (
    <ul className={classes.lines} aria-label={t("approvals.title")}>
      {linesOf(approvals).map((line) => (
        <LineView
          key={line.key}
          line={line}
          isOpen={line.all.some(({ approval_id }) => approval_id === openId)}
          title={titles.get(line.first.session_id)}
          isSelected={line.all.every(({ approval_id }) => selected.has(approval_id))}
          onSelect={onSelect}
        />
      ))}
    </ul>
  );
}

function LineView({
  line: { first, all },
  isOpen,
  title,
  isSelected,
  onSelect,
}: {
  line: Line;
  isOpen: boolean;
  title?: string;
  isSelected: boolean;
  onSelect: (ids: readonly string[], isSelected: boolean) => void;
}) {
  const { t } = useTranslation();
  const kind = useKindName(first.kind);
  const name = first.tool_name === undefined ? kind : visible(first.tool_name);
  const agent = typeof first.details.agent === "string" ? first.details.agent : undefined;
  const from = [agent, title ?? first.session_id].filter((part) => part !== undefined);
  return (
    <li className={classes.line} data-line>
      {first.status === "pending" && (
        <Checkbox
          aria-label={t("approvals.select", { what: `${name} ${aimOf(first)}`.slice(0, 80) })}
          checked={isSelected}
          onChange={(event) =>
            onSelect(
              all.map(({ approval_id }) => approval_id),
              event.currentTarget.checked,
            )
          }
        />
      )}
      <Link
        to={`/approvals/${first.approval_id}`}
        className={classes.open}
        aria-current={isOpen ? "true" : undefined}
      >
        <Group gap="xs" justify="space-between">
          <Group gap="xs">
            <Text span size="sm" fw={600}>
              {name}
            </Text>
            {all.length > 1 && (
              <Badge variant="light" color="gray">
                {t("approvals.identical", { count: all.length })}
              </Badge>
            )}
          </Group>
          {first.status === "pending" ? (
            first.expires_at !== undefined && <Countdown until={first.expires_at} />
          ) : (
            <StatusBadge of="question" status={first.status} />
          )}
        </Group>
        <div className={classes.aim}>{onOneLine(aimOf(first))}</div>
        <Group gap="xs" justify="space-between">
          <Text span size="xs" c="dimmed">
            {visible(from.join(" · "))}
          </Text>
          <When moment={first.decided_at ?? first.created_at} size="xs" c="dimmed" />
        </Group>
      </Link>
    </li>
  );
}
