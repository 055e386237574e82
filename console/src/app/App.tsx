import { type CSSVariablesResolver, createTheme, MantineProvider } from "@mantine/core";
import { QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { lazy, Suspense, useMemo, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { Refused } from "@/shared/api";
import { Pages } from "./Pages";
import { SignIn } from "./SignIn";

const Notifications = lazy(async () => ({
  default: (await import("@mantine/notifications")).Notifications,
}));

const THEME = createTheme({
  // One accent for what can be pressed and what is at work; green is what is done.
  primaryColor: "indigo",
  primaryShade: { light: 8, dark: 7 },
  cursorType: "pointer",
  respectReducedMotion: true,
});

/** Mantine's quiet colours are too quiet to be read by everybody (WCAG 2, 1.4.3). */
const READABLE: CSSVariablesResolver = ({ colors: { gray, green, indigo, red } }) => ({
  variables: {},
  light: {
    "--mantine-color-dimmed": gray?.[7] ?? "",
    "--mantine-color-placeholder": gray?.[7] ?? "",
    "--mantine-color-green-light-color": "#0b4a1c",
    "--mantine-color-green-outline": green?.[9] ?? "",
    "--mantine-color-anchor": indigo?.[8] ?? "",
    "--mantine-color-green-filled": "#237a38",
    "--mantine-color-indigo-light-color": "#2c3f9e",
    "--mantine-color-error": red?.[9] ?? "",
    "--mantine-color-yellow-light-color": "#6b4300",
    "--mantine-color-red-light-color": "#9c1c1c",
  },
  dark: {
    "--mantine-color-gray-light": "rgba(255, 255, 255, 0.08)",
    "--mantine-color-gray-light-color": gray?.[4] ?? "",
    "--mantine-color-dimmed": gray?.[5] ?? "",
    "--mantine-color-placeholder": gray?.[5] ?? "",
    "--mantine-color-green-filled": "#237a38",
    "--mantine-color-indigo-light-color": indigo?.[2] ?? "",
    "--mantine-color-anchor": indigo?.[3] ?? "",
  },
});

/** Whatever lies over the page is closed by a button that says so. */
function useTheme() {
  const { t } = useTranslation();
  return useMemo(() => {
    const defaultProps = { closeButtonProps: { "aria-label": t("common.close") } };
    return {
      ...THEME,
      components: {
        Modal: { defaultProps },
        Drawer: { defaultProps },
        Badge: { defaultProps: { tt: "none", fw: 600 } },
      },
    };
  }, [t]);
}

/** Whether asking again would be answered alike. Who asks too often is only told to wait. */
function isFinal(error: Error): boolean {
  const status = error instanceof Refused ? error.status : 0;
  return status >= 400 && status < 500 && status !== 429;
}

/** Whether the machine is in a network says nothing of a server that may run on it: ask anyway. */
const networkMode = "always";

function newClient(onStranger: () => void): QueryClient {
  return new QueryClient({
    queryCache: new QueryCache({
      onError: (error) => {
        if (error instanceof Refused && error.status === 401) {
          onStranger();
        }
      },
    }),
    defaultOptions: {
      mutations: { networkMode },
      queries: {
        networkMode,
        staleTime: 2_000,
        retry: (failures, error) => failures < 3 && !isFinal(error),
      },
    },
  });
}

/** What a link brought to let somebody in; another link is another object. */
interface Entry {
  code: string;
}

/** The console: who is not signed in sees how to; everybody else their sessions. */
export function App({ nonce, entry }: { nonce: string; entry?: Entry }) {
  const [isStranger, setStranger] = useState(entry !== undefined);
  const [tried, setTried] = useState(entry);
  const [tries, setTries] = useState(0);
  const [client] = useState(() => newClient(() => setStranger(true)));
  const place = useRef("");
  const theme = useTheme();

  // Another link was opened in this tab: whoever it is for signs in with it.
  if (entry !== tried) {
    setTried(entry);
    setTries(tries + 1);
    setStranger(true);
  }

  function enter(): void {
    client.clear();
    // A link that was opened in this tab took the page's name from the address.
    if (window.location.hash === "") {
      window.history.replaceState(null, "", `#${place.current}`);
    }
    setStranger(false);
  }

  return (
    <MantineProvider
      theme={theme}
      cssVariablesResolver={READABLE}
      defaultColorScheme="auto"
      getStyleNonce={() => nonce}
    >
      <QueryClientProvider client={client}>
        <Suspense>
          <Notifications position="top-right" />
        </Suspense>
        {isStranger ? (
          <SignIn key={tries} code={entry?.code} onEnter={enter} />
        ) : (
          <Pages place={place} />
        )}
      </QueryClientProvider>
    </MantineProvider>
  );
}
