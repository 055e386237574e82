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
