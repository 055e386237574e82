"""Why each entry of the audit log is there, in words."""

import pytest

from fakes.rows import audit_entry
from gonogo.i18n.texts import about, why

VOTE = {"decision": "approve", "decided_name": "ann", "after": 6}
CALL = {"call_id": "c1", "arguments": {"command": "make all"}}
SAID = [
    ("tool.allowed", {**CALL, "rule": "user:3", "source": "rule", "reason": "tests may run"},
     "rule user:3 · tests may run", "правило user:3 · tests may run"),
    ("tool.allowed", {"rule": "grant:p1#docs", "source": "grant", "reason": "auto-approved"},
     "approved plan p1, subtask docs", "одобренный план p1, подзадача docs"),
    ("tool.allowed", {"rule": "default:pure", "source": "rule", "reason": "it changes nothing"},
     "default: calls without side effects are allowed · it changes nothing",
     "по умолчанию: вызовы без побочных эффектов разрешены · ничего не меняет"),
    ("tool.allowed", {"rule": "user:1+admin:2", "source": "rule"},
     "rule user:1 · rule admin:2", "правило user:1 · правило admin:2"),
    ("tool.allowed", {**CALL, "source": "person", "reason": "approved by ann"},
     "ann approved it", "одобрение: ann"),
    ("tool.allowed", {"retry_of": "c0", "source": "person", "reason": "run again"},
     "ann ran it again", "запущено снова, решение: ann"),
    ("tool.denied", {"rule": "builtin:protected-path", "reason": "it is protected"},
     "built in: protected path · it is protected",
     "встроенное: защищённый путь · it is protected"),
    ("tool.asked", {"reason": "no rule allows 'git'", "requested_by": "user:bob",
                    "review": {"needed": 2}},
     "no rule allows 'git' · requested by bob · approvals needed: 2",
     "no rule allows 'git' · по просьбе: bob · нужно одобрений: 2"),
    ("tool.approved",
     {"decision": {**VOTE, "via": "link link_7", "feedback": "go on", "approved_by": ["bob", "ann"],
                   "rule": {"decision": "allow"}}, "waited_seconds": 12.345},
     "approved by bob, ann · through link_7 · after 12.3 s · and for the rest of this session"
     " · “go on”",
     "одобрили: bob, ann · по ссылке link_7 · ждали ответа 12,3 с · и до конца этой сессии "
     "· «go on»"),
    ("plan.edited", {"decision": {**VOTE, "decision": "edit", "changes": []}, "waited_seconds": 90},
     "after 1 min 30 s · with changes", "ждали ответа 1 мин 30 с · с изменениями"),
    ("tool.voted", {"decision": VOTE, "votes": 1, "needed": 2},
     "1 of 2 approvals", "одобрений: 1 из 2"),
    ("plan.expired", {"revision": 1}, "nobody decided in time", "решение не приняли вовремя"),
    ("plan.escalated", {"escalated_to": ["lead", "role:admin"]},
     "these people can decide too: lead, role:admin",
     "теперь решить могут также: lead, role:admin"),
    ("link.made", {"name": "eve", "approval_id": "a1", "expires_at": "2026-11-23T10:13:38+00:00"},
     "until 2026-11-23 10:13Z, eve can decide a1 once with this link",
     "до 2026-11-23 10:13Z eve может один раз решить по ссылке вопрос a1"),
    ("link.revoked", {"approval_id": "a1"}, "x can no longer decide a1 with this link",
     "x больше не может решить по ссылке вопрос a1"),
    ("webhook.failed", {"attempts": 8, "error": "503"},
     "stopped after 8 attempts: 503", "прекращено после 8 попыток: 503"),
    ("token.created", {"name": "bob", "role": "viewer"},
     "for bob, role viewer", "для bob, роль viewer"),
    ("token.revoked", {"withdrawn_votes": 2},
     "approvals that no longer count: 2", "одобрений больше не учитывается: 2"),
    ("session.opened", {"workspace": "/w"}, "/w", "/w"),
    ("principal.recognised", {"name": "ann", "issuer": "https://id", "sub": "7"},
     "ann, from https://id (there: 7)", "ann, от https://id (там: 7)"),
    ("plan.commented", {"content": "Why?", "subtask_id": "docs"},
     "subtask docs · “Why?”", "подзадача docs · «Why?»"),
    ("agent.steered", {"content": "Stop.", "subtask_id": "docs"},
     "subtask docs · “Stop.”", "подзадача docs · «Stop.»"),
    ("plan.sent_back", {"comments": ["c1", "c2"]}, "comments: 2", "комментариев: 2"),
    ("plan.comments_answered", {"answers": {"c1": "so"}}, "comments: 1", "комментариев: 1"),
    ("plan.rolled_back", {"restored": 3, "conflicts": 1, "shared": 1},
     "files restored: 3, left as they are: 2", "файлов восстановлено: 3, оставлено как есть: 2"),
    ("plan.retried", {"subtasks": ["a", "b"]}, "subtasks: a, b", "подзадачи: a, b"),
    ("plan.retry_asked", {"subtask_id": "a"}, "subtask a", "подзадача a"),
    ("tool.network",
     {"reached": ["a.example"],
      "refused": [{"host": "b.example", "reason": "it does not answer"}]},
     "hosts reached: a.example · hosts refused: b.example (it does not answer)",
     "обращение к хостам: a.example · доступ к хостам запрещён: b.example (хост не отвечает)"),
    ("tool.left_names", {"names": [".git", ".envrc"]}, "files left: .git, .envrc",
     "появились файлы: .git, .envrc"),
    ("tool.names_taken", {"names": [".git"], "folder": "/h/taken/c", "by": "ann"},
     "files left: .git · moved to /h/taken/c, decided by ann",
     "появились файлы: .git · перенесено в /h/taken/c, решение: ann"),
    ("audit.anchored", {"chains": 4}, "chains: 4", "цепочек: 4"),
    ("audit.pruned", {"first": 1, "last": 9},
     "entries 1 to 9 were exported and removed", "записи с 1 по 9 выгружены и удалены"),
    ("turn.cancelled", {}, "", ""),
    ("plan.paused", {"reason": "quota"}, "quota", "quota"),
    ("tool.expired", {"reason": "there is nobody to ask"},
     "nobody decided in time · there is nobody to ask",
     "решение не приняли вовремя · спросить некого"),
    ("session.deleted",
     {"reason": "nothing happened in it for 30 days", "reason_parts": {
         "template": "nothing happened in it for {days:g} days", "params": {"days": 30}}},
     "nothing happened in it for 30 days",
     "в ней ничего не происходило; срок хранения в днях: 30"),
    ("tool.denied", {"rule": "user:1", "subtask_id": "a", "reason": "there is nobody to ask"},
     "rule user:1 · there is nobody to ask", "правило user:1 · спросить некого"),
    ("tool.denied", {"rule": "grant:p1+builtin:x+default:y+grant:p#s"},
     "rule grant:p1 · built in: x · built in: y · approved plan p, subtask s",
     "правило grant:p1 · встроенное: x · встроенное: y · одобренный план p, подзадача s"),
    ("tool.asked", {}, "", ""),
    ("deploy.asked", {"reason": "r", "review": {"needed": 1}}, "r", "r"),
    ("plan.asked", {"review": {"needed": 3}, "requested_by": "bob"},
     "requested by bob · approvals needed: 3", "по просьбе: bob · нужно одобрений: 3"),
    ("plan.approved",
     {"decision": {"rule": {"decision": "allow"}, "for_plan": True, "via": "mail",
                   "feedback": "f", "changes": [1], "approved_by": []},
      "votes": 2, "needed": 3, "waited_seconds": 0},
     "2 of 3 approvals · through mail · after 0.0 s · with changes"
     " · and for the rest of this plan · “f”",
     "одобрений: 2 из 3 · по ссылке mail · ждали ответа 0,0 с · с изменениями"
     " · и до конца этого плана · «f»"),
    ("plan.approved", {"decision": {}, "reason": "r"}, "", ""),
    ("link.made", {"approval_id": "a1", "expires_at": "2026-11-23T10:13:38+00:00"},
     "until 2026-11-23 10:13Z, x can decide a1 once with this link",
     "до 2026-11-23 10:13Z x может один раз решить по ссылке вопрос a1"),
    ("link.revoked", {"name": "eve", "approval_id": "a1"},
        "eve can no longer decide a1 with this link",
     "eve больше не может решить по ссылке вопрос a1"),
    ("token.created", {"name": "bob", "role": "viewer", "withdrawn_votes": 1},
     "for bob, role viewer · approvals that no longer count: 1",
     "для bob, роль viewer · одобрений больше не учитывается: 1"),
    ("principal.renamed", {"name": "ann", "issuer": "https://id", "sub": "7"},
     "ann, from https://id (there: 7)", "ann, от https://id (там: 7)"),
    ("database.accepted", {"missing": ["chain a is gone", "b"]}, "chain a is gone · b",
     "chain a is gone · b"),
    ("plan.commented", {"content": "Why?"}, "“Why?”", "«Why?»"),
    ("plan.sent_back", {}, "comments: 0", "комментариев: 0"),
    ("plan.sent_back", {"comments": [], "answers": [1, 2]}, "comments: 2", "комментариев: 2"),
    ("tool.network", {"reached": ["a", "b"]}, "hosts reached: a, b", "обращение к хостам: a, b"),
    ("tool.network", {"reached": [], "refused": [{"host": "a"}, {"host": "b"}]},
     "hosts refused: a, b", "доступ к хостам запрещён: a, b"),
]  # fmt: skip


@pytest.mark.parametrize(("action", "details", "english", "russian"), SAID)
def test_why_an_entry_is_there_is_said_in_words_in_both_languages(
    action, details, english, russian
):
    found = audit_entry(action, details)

    assert (why(found, "en"), why(found, "ru")) == (english, russian)


@pytest.mark.parametrize(("action", "details", "english", "russian"), SAID)
def test_details_that_somebody_changed_break_nothing(action, details, english, russian):
    for wrong in (7, None, [], "x"):
        changed = dict.fromkeys(details, wrong)
        assert isinstance(why(audit_entry(action, changed), "en"), str)


def test_a_call_says_what_it_does_and_a_long_text_is_cut():
    assert (
        about(audit_entry(details=CALL, subject="execute_command")) == "execute_command: make all"
    )
    assert about(audit_entry(details={"arguments": {"path": "a.md"}}, subject="t")) == "t: a.md"
    assert about(audit_entry(details={"arguments": 7})) == "user:x"
    assert len(why(audit_entry(details={"reason": "x" * 9_000}), "en")) == 300


def test_who_has_no_name_is_called_by_their_id():
    said = [
        why(audit_entry(details={"source": "person", **more}, actor_name=None), "en")
        for more in ({}, {"retry_of": "c0"})
    ]
    assert said == ["user:ann approved it", "user:ann ran it again"]


def test_what_is_known_before_the_detail_that_was_changed_is_said():
    changed = {"decision": {"approved_by": ["ann"], "via": "link x"}, "votes": 1, "needed": 2}
    said = why(audit_entry("tool.approved", changed | {"waited_seconds": "?"}), "en")
    assert said == "1 of 2 approvals · approved by ann · through x"


def test_a_text_has_300_characters_at_most_and_is_cut_only_where_it_has_more():
    def told(length):
        entry = audit_entry("session.opened", {"workspace": "x" * length})
        call = audit_entry(details={"arguments": {"command": "y" * length}}, subject="t")
        return why(entry, "en"), about(call)

    assert told(300) == ("x" * 300, f"t: {'y' * 300}")
    assert told(301) == ("x" * 299 + "…", f"t: {'y' * 299}…")


def test_what_a_call_is_about_is_its_command_before_its_path_and_else_its_subject():
    def told(arguments):
        return about(audit_entry(details={"arguments": arguments}, subject="t"))

    assert [told(each) for each in (
        {"command": "c", "path": "p"}, {"command": "", "path": "p"}, {"command": 7}, {},
    )] == ["t: c", "t: p", "t", "t"]  # fmt: skip
