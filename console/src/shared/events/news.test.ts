import { expect, test } from "vitest";
import { staleBy } from "./news";

test("news of a session are asked about where several are shown, and of questions where it asks", () => {
  const works = staleBy([{ session_id: "s1", events: ["tool_result"] }]);
  expect([works("listSessions"), works("listApprovals"), works("getPlan")]).toEqual([
    true,
    false,
    false,
  ]);
  const asks = staleBy([{ session_id: "s1", events: [] }, { events: ["approval_requested"] }]);
  expect([asks("listApprovals"), asks("getApproval"), asks("getPending")]).toEqual([
    true,
    true,
    true,
  ]);
  const all = staleBy([{}]);
  expect([all("listSessions"), all("listApprovals"), all("listAgents")]).toEqual([
    true,
    true,
    false,
  ]);
});
