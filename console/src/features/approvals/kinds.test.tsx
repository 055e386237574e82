import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createInstance } from "i18next";
import { renderToStaticMarkup } from "react-dom/server";
import { I18nextProvider, initReactI18next } from "react-i18next";
import { MemoryRouter } from "react-router";
import { expect, it } from "vitest";
import { type ApprovalView, whoAmIQueryKey } from "@/shared/api";
import { en } from "@/shared/i18n/en";
import { Answer } from "./Answer";
import { AskedFor } from "./AskedFor";
import { Facts } from "./Facts";
import { Review } from "./Review";

const { means, word } = en.approvals;
const i18n = createInstance();
void i18n.use(initReactI18next).init({
  lng: "en",
  resources: { en: { translation: en } },
  interpolation: { escapeValue: false },
  initAsync: false,
});
const STEP = {
  id: "left",
  description: "Write the <b>left</b> half",
  agent: "coder",
  estimated_time: "3 min",
  dependencies: ["base"],
  scope: { paths: ["left.txt"], commands: ["pytest -q"] },
  timeout: 30,
};

function asked(more: Partial<ApprovalView>): ApprovalView {
  return {
    approval_id: "a",
    request_id: "a",
    kind: "intervention",
    request_type: "intervention",
    session_id: "s",
    subject: "The subject",
    details: {},
    reason: "The reason",
    digest: "sha256:x",
    status: "pending",
    created_at: "2026-01-01T00:00:00Z",
    ...more,
  };
}

/** What a question shows to one with that role, as text. */
function shown(approval: ApprovalView, role = "operator", edit?: string): string {
  const queries = new QueryClient();
  queries.setQueryData(whoAmIQueryKey(), { id: "user:ann", name: "ann", role });
  const draft = { feedback: "", isAlone: false, edit };
  const markup = renderToStaticMarkup(
    <I18nextProvider i18n={i18n}>
      <MantineProvider>
        <QueryClientProvider client={queries}>
          <MemoryRouter>
            <AskedFor approval={approval} />
            <Facts approval={approval} />
            <Review approval={approval} />
            <Answer approval={approval} same={[approval]} draft={draft} onDraft={() => {}} />
          </MemoryRouter>
        </QueryClientProvider>
      </MantineProvider>
    </I18nextProvider>,
  );
  return markup
    .replace(/<style.*?<\/style>/gs, "")
    .replace(/<[^>]*>/g, " ")
    .replace(/\s+/g, " ");
}

it("offers to allow a plan the words of a command, and shows them", () => {
  const call = { kind: "tool", plan_id: "p", tool_name: "execute_command" };
  const words = { words_for_plan: "touch x" };
  expect(shown(asked({ ...call, details: words }))).toContain("until the plan ends touch x");
  expect(shown(asked({ ...call, details: {} }))).not.toContain("until the plan ends");
});

it("shows a plan's subtasks with who does them and what they may touch, and what was noticed", () => {
  const details = {
    subtasks: [STEP],
    findings: [{ severity: "warning", message: "Nothing checks" }],
    instructions: [{ path: "AGENTS.md" }, { path: "docs/\u202eCLAUDE.md" }],
  };
  const text = shown(asked({ kind: "plan", plan_id: "p", details }));
  for (const part of [
    "left: Write the &lt;b&gt;left",
    "coder · 3 min · after base",
    "left.txt",
    "pytest -q",
    "Nothing checks",
    "The planner was told about: AGENTS.md, docs/\\u{202e}CLAUDE.md",
    "timeout",
    means.plan,
  ]) {
    expect(text).toContain(part);
  }
});

it("shows how a command was understood, which part asks, by which rule", () => {
  const parts = [
    { text: "ls", joined_by: "", asks: false },
    { text: "git push \u202e", joined_by: "&&", asks: true },
  ];
  const details = { preview: "ls && git push", rule: "user:3", parts };
  const text = shown(asked({ kind: "tool", tool_name: "execute_command", call_id: "c", details }));
  expect(text).toContain("How gonogo parsed the command ls &amp;&amp; git push \\u{202e}");
  expect(text.match(/needs approval/g)).toHaveLength(1);
  for (const part of ["user:3", means.tool, word.tool, "Allow until the session ends"]) {
    expect(text).toContain(part);
  }
});

it("says what rejecting a subtask's start does, which the plan has chosen", () => {
  const subtask = (more: object) =>
    shown(
      asked({ kind: "subtask", subtask_id: "left", details: { subtask: { ...STEP, ...more } } }),
    );
  expect(subtask({})).toContain(means.subtask);
  expect(subtask({})).toContain(word.subtask);
  expect(subtask({ on_reject: "fail" })).toContain(means.subtaskFails);
});

it("gives each kind of intervention answers of its own", () => {
  const question = { question: "Which?", suggestions: ["the first", "the second"] };
  const told = {
    question: shown(asked({ call_id: "c", details: question })),
    doubt: shown(asked({ call_id: "c", details: { tool: "execute_command" } })),
    names: shown(asked({ call_id: "c", details: { about: "guarded_names", names: [".git"] } })),
    budget: shown(asked({ details: { about: "budget", what: "tokens", limit: 100, used: 101 } })),
    replan: shown(asked({ details: { about: "replan", root_cause: "It was tired" } })),
    model: shown(asked({ details: { about: "model", models: ["openai:second"] } })),
    other: shown(asked({ details: { about: "weather" } })),
  };
  for (const [matter, text] of Object.entries(told)) {
    expect(text).toContain(means[matter as keyof typeof told]);
    expect(text).toContain(word[matter as keyof typeof told]);
  }
  expect(told.question).toContain("the second");
  expect(told.doubt).toContain("Mark as done");
  expect(told.names).toContain(".git");
  expect(told.names).not.toContain("Mark as done");
  expect(told.replan).toContain("It was tired");
  const limits = shown(
    asked({ details: { about: "budget", what: "tokens", limit: 9 } }),
    "admin",
    "{}",
  );
  expect(limits).toContain("New limits");
  expect(told.model).toContain("Ask another model");
  expect(shown(asked({ details: { about: "model" } }))).not.toContain("Ask another model");
});

it("says who decides, how many have, and who may not", () => {
  const review = {
    needed: 2,
    role: "admin",
    rules: ["admin:1"],
    reviewers: ["ann", "bob", "eve"],
    not_requester: true,
    asked_too: ["eve"],
    escalates_to: ["role:admin"],
  };
  const votes = [{ name: "bob", decision: "approve", created_at: "2026-01-01T00:00:00Z" }];
  const text = shown(asked({ kind: "tool", call_id: "c", requested_by: "ann", review, votes }));
  for (const part of [
    "1 of 2",
    "May approve: bob",
    "Only admins",
    "may not approve it",
    "bob approved",
  ]) {
    expect(text).toContain(part);
  }
});

it("offers nothing to those who only look", () => {
  const text = shown(asked({ kind: "tool", call_id: "c" }), "viewer");
  expect(text).toContain("read-only");
  expect(text).not.toContain("Reject");
});
