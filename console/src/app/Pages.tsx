import { Text } from "@mantine/core";
import { lazy, type RefObject } from "react";
import { useTranslation } from "react-i18next";
import { HashRouter, Navigate, Route, Routes, useLocation } from "react-router";
import { SessionsPage } from "@/features/sessions/SessionsPage";
import { Shell } from "./Shell";

const SessionPage = lazy(async () => ({
  default: (await import("@/features/sessions/SessionPage")).SessionPage,
}));
const ApprovalsPage = lazy(async () => ({
  default: (await import("@/features/approvals/ApprovalsPage")).ApprovalsPage,
}));
const AuditPage = lazy(async () => ({
  default: (await import("@/features/audit/AuditPage")).AuditPage,
}));
const AnalyticsPage = lazy(async () => ({
  default: (await import("@/features/analytics/AnalyticsPage")).AnalyticsPage,
}));
const SettingsPage = lazy(() => import("@/features/settings/SettingsPage"));

/**
 * The pages, each loaded when it is opened first. Drawn only for whom is signed in: before that the
 * address may hold a login code.
 *
 * @param place Told which page is open.
 */
export function Pages({ place }: { place: RefObject<string> }) {
  return (
    <HashRouter>
      <Place place={place} />
      <Routes>
        <Route element={<Shell />}>
          <Route index element={<Navigate to="/sessions" replace />} />
          <Route path="sessions" element={<SessionsPage />} />
          <Route path="sessions/:sessionId/:tab?" element={<SessionPage />} />
          <Route path="approvals/:approvalId?" element={<ApprovalsPage />} />
          <Route path="audit" element={<AuditPage />} />
          <Route path="analytics" element={<AnalyticsPage />} />
          <Route path="settings/:section?" element={<SettingsPage />} />
          <Route path="*" element={<NotFound />} />
        </Route>
      </Routes>
    </HashRouter>
  );
}

function Place({ place }: { place: RefObject<string> }) {
  const { pathname, search } = useLocation();
  place.current = pathname + search;
  return null;
}

function NotFound() {
  const { t } = useTranslation();
  return <Text>{t("app.notFound")}</Text>;
}
