import { Stack, Tabs, Title } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { useNavigate, useParams, useSearchParams } from "react-router";
import { Agents } from "./Agents";
import { Browser } from "./Browser";
import { Grants } from "./Grants";
import { Models } from "./Models";
import { Policy } from "./Policy";
import { Servers } from "./Servers";
import { SessionRules } from "./SessionRules";
import classes from "./Settings.module.css";
import { Tokens } from "./Tokens";
import { Tools } from "./Tools";

const SECTIONS = {
  agents: Agents,
  tools: Tools,
  models: Models,
  servers: Servers,
  policy: Policy,
  rules: SessionRules,
  grants: Grants,
  tokens: Tokens,
  browser: Browser,
} as const;

type Name = keyof typeof SECTIONS;

const NAMES = Object.keys(SECTIONS) as Name[];

/** What there is, what is allowed, and who may come in. */
export default function SettingsPage() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const [search] = useSearchParams();
  const { section } = useParams();
  const shown = NAMES.find((name) => name === section) ?? "agents";

  return (
    <Stack>
      <Title order={1} size="h2">
        {t("settings.title")}
      </Title>
      <Tabs
        value={shown}
        onChange={(next) => navigate({ pathname: `/settings/${next}`, search: search.toString() })}
        keepMounted={false}
      >
        <Tabs.List className={classes.tabs}>
          {NAMES.map((name) => (
            <Tabs.Tab key={name} value={name}>
              {t(`settings.${name}`)}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {NAMES.map((name) => {
          const Section = SECTIONS[name];
          return (
            <Tabs.Panel key={name} value={name} pt="md">
              <Section />
            </Tabs.Panel>
          );
        })}
      </Tabs>
    </Stack>
  );
}
