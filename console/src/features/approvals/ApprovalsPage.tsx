import { Button, Group, SegmentedControl, Select, Stack, Text, Title } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { useNavigate, useParams } from "react-router";
import type { ApprovalView } from "@/shared/api";
import { Loaded } from "@/shared/ui";
import classes from "./Approvals.module.css";
import { useDrafts } from "./drafts";
import { KeysHelp } from "./KeysHelp";
import { useKeys } from "./keys";
import { Lines } from "./Lines";
import { NotifyButton } from "./NotifyButton";
import { Question } from "./Question";
import { Selected } from "./Selected";
import { KINDS } from "./useKindName";
import { type Filters, type Shown, useList, useTitles } from "./useQuestions";

const PAGE = 100;
const SHOWN: readonly Shown[] = ["mine", "waiting", "decided"];

/** The desk: what people are asked, across sessions, and the one that is open. */
export function ApprovalsPage() {
  const { t } = useTranslation();
  const { approvalId } = useParams();
  const [filters, setFilters] = useState<Filters>({ shown: "mine", kind: null, session: null });
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [count, setCount] = useState(PAGE);
  const [isHelp, help] = useDisclosure(false);
  const { draftFor, change } = useDrafts();
  const titles = useTitles();
  const query = useList(filters);
  const waiting = query.data?.filter(({ status }) => status === "pending") ?? [];
  const goOn = useNext(query.data ?? [], approvalId);
  useKeys(help.open);

  function select(ids: readonly string[], isSelected: boolean): void {
    const kept = [...selected].filter((id) => !ids.includes(id));
    setSelected(new Set(isSelected ? [...kept, ...ids] : kept));
  }

  return (
    <Stack gap="sm">
      <Group justify="space-between">
        <Title order={1} size="h2">
          {t("approvals.title")}
        </Title>
        <Group gap="xs">
          <NotifyButton />
          <Button variant="subtle" size="xs" onClick={help.open} aria-keyshortcuts="?">
            {t("approvals.keys")}
          </Button>
        </Group>
      </Group>
      <div className={`${classes.desk} ${approvalId === undefined ? "" : classes.withQuestion}`}>
        <Stack gap="sm" className={classes.list}>
          <Narrow filters={filters} titles={titles} onChange={setFilters} />
          <Selected
            approvals={waiting.filter(({ approval_id }) => selected.has(approval_id))}
            onClear={() => setSelected(new Set())}
          />
          <Loaded query={query}>
            {(approvals) => (
              <>
                {approvals.length === 0 ? (
                  <Text>{t(`approvals.none.${filters.shown}`)}</Text>
                ) : (
                  <Lines
                    approvals={approvals.slice(0, count)}
                    openId={approvalId}
                    titles={titles}
                    selected={selected}
                    onSelect={select}
                  />
                )}
                {approvals.length > count && (
                  <Button variant="default" onClick={() => setCount(count + PAGE)}>
                    {t("common.more")}
                  </Button>
                )}
              </>
            )}
          </Loaded>
        </Stack>
        {approvalId !== undefined && (
          <Question
            key={approvalId}
            approvalId={approvalId}
            waiting={waiting}
            draft={draftFor(approvalId)}
            onDraft={(changes) => change(approvalId, changes)}
            onDone={goOn}
          />
        )}
      </div>
      <KeysHelp opened={isHelp} onClose={help.close} />
    </Stack>
  );
}

/** Goes to the question that waits after those that were answered; stays where none does. */
function useNext(shown: readonly ApprovalView[], openId: string | undefined) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  return (answered: readonly string[]) => {
    const left = shown.filter(
      ({ status, approval_id }) => status === "pending" && !answered.includes(approval_id),
    );
    const place = shown.findIndex(({ approval_id }) => approval_id === openId);
    const next = left.find((one) => shown.indexOf(one) > place) ?? left[0];
    if (next !== undefined) {
      notifications.show({ message: t("approvals.goesOn", { count: left.length }) });
      void navigate(`/approvals/${next.approval_id}`);
    }
  };
}

/** Which questions are wanted. */
function Narrow({
  filters,
  titles,
  onChange,
}: {
  filters: Filters;
  titles: ReadonlyMap<string, string>;
  onChange: (filters: Filters) => void;
}) {
  const { t } = useTranslation();
  return (
    <Stack gap="xs">
      <SegmentedControl
        aria-label={t("approvals.shown.label")}
        data={SHOWN.map((value) => ({ value, label: t(`approvals.shown.${value}`) }))}
        value={filters.shown}
        onChange={(shown) => onChange({ ...filters, shown: shown as Shown })}
      />
      <Group gap="xs" grow>
        <Select
          aria-label={t("approvals.anyKind")}
          placeholder={t("approvals.anyKind")}
          data={KINDS.map((value) => ({ value, label: t(`approvals.kind.${value}`) }))}
          value={filters.kind}
          onChange={(kind) => onChange({ ...filters, kind })}
          clearable
        />
        <Select
          aria-label={t("approvals.anySession")}
          placeholder={t("approvals.anySession")}
          data={[...titles].map(([value, label]) => ({ value, label }))}
          value={filters.session}
          onChange={(session) => onChange({ ...filters, session })}
          searchable
          clearable
        />
      </Group>
    </Stack>
  );
}
