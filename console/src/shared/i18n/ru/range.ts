import type { en } from "../en/range";
import type { Texts } from "../texts";

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
