import { Text, type TextProps } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { exact, relative, useNow } from "./time";

/** A moment: how long ago, or until, by a clock of its own or a given one; in full when pointed at. */
export function When({ moment, now, ...props }: { moment: string; now?: number } & TextProps) {
  const { i18n } = useTranslation();
  const own = useNow(10_000);
  return (
    <Text component="time" dateTime={moment} title={exact(moment, i18n.language)} {...props}>
      {relative(moment, now ?? own, i18n.language)}
    </Text>
  );
}
