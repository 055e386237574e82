import { Card, Stack, Table, Text, Title } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { useFigures } from "@/shared/ui";

export type Cell = string | number;

/** A chart, and the same numbers as a table: unfolded by whoever wants them, read by a reader. */
export function Figure({
  title,
  empty,
  head,
  rows,
  note,
  children,
}: {
  title: string;
  empty: string;
  head: readonly string[];
  rows: readonly (readonly Cell[])[];
  /** What else there is to say of the same. */
  note?: ReactNode;
  children: ReactNode;
}) {
  const { t } = useTranslation();
  const { number } = useFigures();
  return (
    <Card withBorder padding="sm" component="section" aria-label={title}>
      <Stack gap="xs">
        <Title order={2} size="h5">
          {title}
        </Title>
        {rows.length === 0 ? (
          <Text size="sm">{empty}</Text>
        ) : (
          <>
            <div aria-hidden="true">{children}</div>
            <details>
              <summary>{t("analytics.table")}</summary>
              <Table.ScrollContainer minWidth={0} type="native" tabIndex={0}>
                <Table verticalSpacing={4} horizontalSpacing="xs" aria-label={title}>
                  <Table.Thead>
                    <Table.Tr>
                      {head.map((name) => (
                        <Table.Th key={name}>{name}</Table.Th>
                      ))}
                    </Table.Tr>
                  </Table.Thead>
                  <Table.Tbody>
                    {rows.map((row) => (
                      <Table.Tr key={row.join(" ")}>
                        {row.map((cell, place) => (
                          <Table.Td key={head[place]}>
                            {typeof cell === "number" ? number(cell) : cell}
                          </Table.Td>
                        ))}
                      </Table.Tr>
                    ))}
                  </Table.Tbody>
                </Table>
              </Table.ScrollContainer>
            </details>
          </>
        )}
        {note}
      </Stack>
    </Card>
  );
}
