import { Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { getPolicyOptions, type RuleView } from "@/shared/api";
import { visible } from "@/shared/ui";
import { Permitted } from "./Permitted";
import { RuleCard } from "./RuleCard";
import classes from "./Settings.module.css";
import { TryRules } from "./TryRules";

/** The rules of the files, which decide before a person is asked, and who is asked then. */
export function Policy() {
  const { t } = useTranslation();
  const query = useQuery(getPolicyOptions());
  return (
    <Permitted query={query}>
      {({ rules, reviews, version }) => (
        <Stack gap="sm">
          <Text size="sm">{t("settings.rule.intro")}</Text>
          <TryRules />
          <Rules rules={rules} none={t("settings.rule.none")} />
          <Title order={2} size="h4">
            {t("settings.rule.reviews")}
          </Title>
          <Rules rules={reviews} none={t("settings.rule.noReviews")} />
          <Text size="xs" c="dimmed" className={classes.words}>
            {t("settings.rule.version")}: <span translate="no">{version}</span>
          </Text>
        </Stack>
      )}
    </Permitted>
  );
}

function Rules({ rules, none }: { rules: readonly RuleView[]; none: string }) {
  const { t } = useTranslation();
  if (rules.length === 0) {
    return (
      <Text size="sm" c="dimmed">
        {none}
      </Text>
    );
  }
  return rules.map(({ name, tier, where, rule }) => (
    <RuleCard
      key={name}
      name={name}
      rule={rule}
      told={`${t(`settings.rule.tier.${tier}`)} · ${visible(where)}`}
    />
  ));
}
