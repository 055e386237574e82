import { Text, type TextProps } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { exact, relative, useNow } from "./time";

/** A moment: how long ago, or until; in full when pointed at. */
export function When({ moment, ...props }: { moment: string } & TextProps) {
  const { i18n } = useTranslation();
  const now = useNow(10_000);
  return (
    <Text component="time" dateTime={moment} title={exact(moment, i18n.language)} {...props}>
      {relative(moment, now, i18n.language)}
    </Text>
  );
}
