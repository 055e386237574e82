import { Badge, Group, Stack, Tabs, Text, Title } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useCallback, useMemo, useRef } from "react";
import { useTranslation } from "react-i18next";
import { useNavigate, useParams } from "react-router";
import { type Event, getSessionOptions, getSessionQueryKey, getUsageOptions } from "@/shared/api";
import {
  KnownWindows,
  type Link,
  placeOf,
  usePlanNews,
  useSession,
  whatPeopleSaid,
} from "@/shared/events";
import { FillSlots } from "@/shared/slots";
import { usePlaceTitle } from "@/shared/title";
import { CopyId, Loaded, Loading, Meter, Spent, useFigures, visible } from "@/shared/ui";
import { Chat } from "../chat/Chat";
import { Followed, Transcript } from "../chat/Transcript";
import { DecisionBar } from "./DecisionBar";
import { SessionMenu } from "./SessionMenu";
import classes from "./Sessions.module.css";

const QuestionCard = lazy(() => import("../approvals/QuestionCard"));
const Undo = lazy(() => import("../checkpoints/Undo"));
const SLOTS = { Question: QuestionCard, Transcript, Rollback: Undo };
const PlanRoom = lazy(() => import("../plan/PlanRoom"));
const SessionChanges = lazy(async () => ({
  default: (await import("../changes/SessionChanges")).SessionChanges,
}));
const Checkpoints = lazy(async () => ({
  default: (await import("../checkpoints/Checkpoints")).Checkpoints,
}));

const LINK_COLORS: Record<Link, string> = { connecting: "gray", live: "indigo", broken: "red" };

/** One session: its conversation, and what it has made. */
export function SessionPage() {
  const { sessionId = "", tab = "chat" } = useParams();
  return <OneSession key={sessionId} sessionId={sessionId} tab={tab} />;
}

function OneSession({ sessionId, tab }: { sessionId: string; tab: string }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const queries = useQueryClient();
  const session = useQuery(getSessionOptions({ path: { session_id: sessionId } }));
  const turn = useRef<string>(undefined);
  const tellPlans = usePlanNews();
  const onEvents = useCallback(
    (events: readonly Event[]) => {
      tellPlans(events);
      // What people say is no event; but whatever they say begins a turn.
      const latest = events.findLast((event) => event.turn_id !== undefined)?.turn_id;
      if (latest !== undefined && latest !== turn.current) {
        turn.current = latest;
        void queries.invalidateQueries({ queryKey: whatPeopleSaid(sessionId).queryKey });
        // The first thing that is said is the title where there is no other.
        void queries.invalidateQueries({
          queryKey: getSessionQueryKey({ path: { session_id: sessionId } }),
        });
      }
    },
    [queries, sessionId, tellPlans],
  );
  const following = useSession(sessionId, onEvents);
  usePlaceTitle(session.data && visible(session.data.title || t("sessions.untitled")));
  const { link, conversation } = following;
  const followed = useMemo(() => ({ sessionId, following }), [sessionId, following]);
  const filled = conversation.windows[placeOf()];

  return (
    <Loaded query={session}>
      {(found) => (
        <FillSlots value={SLOTS}>
          <Followed value={followed}>
            <Stack gap="xs" className={classes.room} data-tab={tab}>
              <Group justify="space-between">
                <Title order={1} size="h3" lineClamp={2} flex="1 1 12rem">
                  {visible(found.title || t("sessions.untitled"))}
                </Title>
                <Group gap="xs">
                  {filled !== undefined && (
                    <Text size="sm" c="dimmed" title={t("window.hint")}>
                      {t("window.used", { percent: filled })}
                    </Text>
                  )}
                  <Badge variant="dot" color={LINK_COLORS[link]} role="status">
                    {t(`link.${link}`)}
                  </Badge>
                  <SessionMenu session={found} />
                </Group>
              </Group>
              <Group gap="xs">
                <Text size="sm" c="dimmed" style={{ overflowWrap: "anywhere" }}>
                  {found.workspace}
                </Text>
                <CopyId id={sessionId} />
                <SessionSpent sessionId={sessionId} />
              </Group>
              <Tabs
                value={tab}
                onChange={(next) => navigate(`/sessions/${sessionId}/${next}`, { replace: true })}
                keepMounted={false}
                className={classes.whole}
              >
                <Tabs.List className={classes.tabs}>
                  <Tabs.Tab value="chat">{t("sessions.chat")}</Tabs.Tab>
                  <Tabs.Tab value="plan">{t("sessions.plan")}</Tabs.Tab>
                  <Tabs.Tab value="changes">{t("sessions.changes")}</Tabs.Tab>
                  <Tabs.Tab value="checkpoints">{t("sessions.checkpoints")}</Tabs.Tab>
                </Tabs.List>
                <DecisionBar sessionId={sessionId} />
                <Tabs.Panel value="chat" pt="xs" className={classes.whole}>
                  <Chat sessionId={sessionId} following={following} />
                </Tabs.Panel>
                <Tabs.Panel value="plan" pt="sm">
                  <Suspense fallback={<Loading />}>
                    <KnownWindows value={conversation.windows}>
                      <PlanRoom sessionId={sessionId} />
                    </KnownWindows>
                  </Suspense>
                </Tabs.Panel>
                <Tabs.Panel value="changes" pt="xs">
                  <Suspense fallback={<Loading />}>
                    <SessionChanges sessionId={sessionId} />
                  </Suspense>
                </Tabs.Panel>
                <Tabs.Panel value="checkpoints" pt="xs">
                  <Suspense fallback={<Loading />}>
                    <Checkpoints sessionId={sessionId} />
                  </Suspense>
                </Tabs.Panel>
              </Tabs>
            </Stack>
          </Followed>
        </FillSlots>
      )}
    </Loaded>
  );
}

const LIMITED = ["tokens", "cost", "requests"] as const;

/** What the session took so far, its plans included, and how much of its budget that is. */
function SessionSpent({ sessionId }: { sessionId: string }) {
  const { t } = useTranslation();
  const { number, dollars } = useFigures();
  const { data } = useQuery(getUsageOptions({ path: { session_id: sessionId } }));
  if (data === undefined) {
    return null;
  }
  const { usage, limits = {} } = data;
  return (
    <>
      {usage.requests > 0 && <Spent usage={usage} />}
      {LIMITED.filter((name) => limits[name] !== undefined).map((name) => (
        <Meter
          key={name}
          name={t(`usage.${name}`)}
          used={usage[name]}
          limit={limits[name]}
          write={name === "cost" ? dollars : number}
        />
      ))}
    </>
  );
}
