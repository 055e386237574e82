import { Button } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { useWantsNews } from "./notify";

/** Has this browser tell of new questions, or stop; it asks for leave only when pressed. */
export function NotifyButton() {
  const { t } = useTranslation();
  const [wantsNews, setWantsNews] = useWantsNews();
  if (!("Notification" in window)) {
    return null;
  }

  async function toggle(): Promise<void> {
    setWantsNews(!wantsNews && (await Notification.requestPermission()) === "granted");
  }

  return (
    <Button variant="subtle" size="xs" onClick={() => void toggle()} aria-pressed={wantsNews}>
      {t(wantsNews ? "approvals.notifyOff" : "approvals.notifyOn")}
    </Button>
  );
}
