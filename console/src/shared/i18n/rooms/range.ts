import type { Texts } from "../texts";

/** Which period and which sessions are shown. */
export const en = {
  time: "Period",
  day: "The last 24 hours",
  week: "The last 7 days",
  month: "The last 30 days",
  year: "The last 365 days",
  own: "From … to …",
  all: "All time",
  since: "From",
  until: "To",
  session: "Session",
  everySession: "All sessions",
} as const;

export const ru: Texts<typeof en> = {
  time: "Период",
  day: "Последние 24 часа",
  week: "Последние 7 дней",
  month: "Последние 30 дней",
  year: "Последние 365 дней",
  own: "С … по …",
  all: "За всё время",
  since: "С",
  until: "По",
  session: "Сессия",
  everySession: "Все сессии",
};
