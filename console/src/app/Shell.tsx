import {
  AppShell,
  Badge,
  Burger,
  Button,
  Group,
  NavLink,
  SegmentedControl,
  Select,
  Stack,
  Text,
  useMantineColorScheme,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { Suspense } from "react";
import { useTranslation } from "react-i18next";
import { Link, Outlet, useLocation } from "react-router";
import { useWaitingCount } from "@/features/approvals/notify";
import { logOut } from "@/shared/api";
import { useNews } from "@/shared/events";
import { LANGUAGE_CHOICES, type LanguageCode, speak } from "@/shared/i18n";
import { useMe } from "@/shared/me";
import { Loading, visible } from "@/shared/ui";

const APPROVALS = "/approvals";
const PLACES = [
  { to: "/sessions", text: "app.sessions" },
  { to: APPROVALS, text: "app.approvals" },
  { to: "/audit", text: "app.audit" },
  { to: "/analytics", text: "app.analytics" },
  { to: "/settings", text: "app.settings" },
] as const;

/** What surrounds every page: where one can go, the language, and the light. */
export function Shell() {
  const { t } = useTranslation();
  const { pathname } = useLocation();
  const [isOpen, { toggle, close }] = useDisclosure(false);
  useNews();

  return (
    <AppShell
      header={{ height: 52 }}
      navbar={{ width: 230, breakpoint: "sm", collapsed: { mobile: !isOpen } }}
      padding="md"
    >
      <button type="button" className="skip" onClick={toContent}>
        {t("app.skip")}
      </button>
      <AppShell.Header>
        <Group h="100%" px="md">
          <Burger
            opened={isOpen}
            onClick={toggle}
            hiddenFrom="sm"
            size="sm"
            aria-label={t("app.navigation")}
          />
          <Text fw={700}>gonogo</Text>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" aria-label={t("app.navigation")}>
        <AppShell.Section grow>
          {PLACES.map(({ to, text }) => (
            <NavLink
              key={to}
              component={Link}
              to={to}
              label={t(text)}
              rightSection={to === APPROVALS && <Waiting />}
              active={pathname.startsWith(to)}
              onClick={close}
              style={{ borderRadius: "var(--mantine-radius-default)" }}
            />
          ))}
        </AppShell.Section>
        <AppShell.Section>
          <Preferences />
        </AppShell.Section>
      </AppShell.Navbar>
      <AppShell.Main id="content" tabIndex={-1}>
        <Suspense fallback={<Loading />}>
          <Outlet />
        </Suspense>
      </AppShell.Main>
    </AppShell>
  );
}

/** How many questions wait for the one who looks. */
function Waiting() {
  const { t } = useTranslation();
  const count = useWaitingCount();
  return count === 0 ? null : (
    <Badge size="sm" circle={count < 10} autoContrast aria-label={t("app.waiting", { count })}>
      {count}
    </Badge>
  );
}

/** The address after `#` names the page, so this is no link. */
function toContent(): void {
  document.getElementById("content")?.focus();
}

function Preferences() {
  const { t, i18n } = useTranslation();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const me = useMe();
  return (
    <Stack gap="xs">
      {me && (
        <Text size="sm" c="dimmed" px={4} style={{ overflowWrap: "anywhere" }}>
          {t("app.me", { name: visible(me.name), role: t(`app.role.${me.role}`) })}
        </Text>
      )}
      <Select
        aria-label={t("app.language")}
        data={LANGUAGE_CHOICES}
        value={i18n.language}
        allowDeselect={false}
        onChange={(language) => speak(language as LanguageCode)}
      />
      <SegmentedControl
        aria-label={t("app.scheme")}
        data={[
          { value: "light", label: "☀" },
          { value: "auto", label: "◐" },
          { value: "dark", label: "☾" },
        ]}
        value={colorScheme}
        onChange={(scheme) => setColorScheme(scheme as typeof colorScheme)}
      />
      <Button
        variant="subtle"
        onClick={() => void logOut().finally(() => window.location.reload())}
      >
        {t("app.signOut")}
      </Button>
    </Stack>
  );
}
