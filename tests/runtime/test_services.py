"""What an operator sets reaches the part that it is meant for."""

from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import anyio
import pytest

from gonogo.domain.failures import Severity
from gonogo.domain.identity import Role
from gonogo.domain.network import PrivateHosts
from gonogo.domain.replanning import ReplanRules
from gonogo.domain.reviews import Doings
from gonogo.domain.states import ApprovalKind
from gonogo.execution.agent import Means
from gonogo.llm import ScriptedModel
from gonogo.runtime import Extensions, Runtime, bare_thread, look_at_models, open_reader
from gonogo.runtime.oidc import memory_of, open_bearers
from gonogo.runtime.services import RoleReport, open_desk, open_means, open_programs, replan_rules
from gonogo.settings import Settings
from gonogo.store import utc_now
from gonogo.workspace import DEFAULT_PATH, Ceilings, Network, SnapshotLimits


def set_(tmp_path: Path, **more: object) -> Settings:
    given = {"home": tmp_path / "home", "config": tmp_path / "config", "workspace": tmp_path}
    return Settings(**{**given, **more})


def test_tools_have_what_the_settings_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "ann"))
    settings = set_(
        tmp_path, command_timeout=1, command_output=2_000, result_tokens=300,
        command_processes=40, command_memory=500, command_file_size=6, command_disk=7,
        command_temporary=8, network_private_hosts="10.1.0.0/16", port=9, network_transfer=3,
    )  # fmt: skip

    made = open_means(settings)
    assert made == Means(
        command_timeout=1, command_output=2_000, result_tokens=300,
        hidden=(tmp_path / "ann", tmp_path / "config"),
        ceilings=Ceilings(processes=40, memory=500, file=6, disk=7, temporary=8),
        network=Network(
            hosts=False, private=PrivateHosts((ip_network("10.1.0.0/16"),)),
            own_ports=frozenset({9}), transfer=3 * 1024 * 1024,
        ),
        is_taped=made.is_taped,
    )  # fmt: skip
    assert not made.is_taped("openai:gpt-5")
    assert made.is_taped("replay:tape.jsonl")


@pytest.mark.parametrize(
    ("db", "files"),
    [
        ("sqlite:////d/x.db?mode=rw", ("", "-journal", "-shm", "-wal")),
        ("sqlite:////d/x.db", ("", "-journal", "-shm", "-wal")),
        ("sqlite://", ()),
        ("postgresql:////d/x.db", ()),
        (None, ()),
    ],
)
def test_commands_see_none_of_our_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, db: str | None, files: tuple[str, ...]
) -> None:
    monkeypatch.setenv("HOME", "/")
    names = ("admin_rules", "hooks", "mcp", "models")
    settings = set_(tmp_path, db=db, **{name: f"/z/{name}" for name in names})

    assert open_means(settings).hidden == (
        *(Path(f"/d/x.db{end}") for end in files), tmp_path / "config",
        *(Path(f"/z/{name}") for name in names),
    )  # fmt: skip


def test_questions_have_the_times_that_are_set(tmp_path: Path) -> None:
    expiry = {
        "approval_expiry_tool": 1, "approval_expiry_plan": 2, "approval_expiry_subtask": 3,
        "approval_expiry_intervention": None,
    }  # fmt: skip
    doings = Doings()
    desk = open_desk(set_(tmp_path, **expiry, approval_warning=5, max_pending_approvals=6), doings)
    assert desk.expiry == {
        ApprovalKind.TOOL: timedelta(seconds=1), ApprovalKind.PLAN: timedelta(seconds=2),
        ApprovalKind.SUBTASK: timedelta(seconds=3), ApprovalKind.INTERVENTION: None,
    }  # fmt: skip
    assert (desk.warning, desk.max_pending) == (timedelta(seconds=5), 6)
    assert (desk.rejects_expired, desk.doings) == (False, doings)
    last = open_desk(set_(tmp_path, approval_expiry_intervention=4), doings).expiry
    assert last[ApprovalKind.INTERVENTION] == timedelta(seconds=4)
    waiting = open_desk(set_(tmp_path, **expiry, approval_expiry_action="keep_waiting"), doings)
    assert (waiting.expiry, waiting.rejects_expired) == ({}, False)
    assert open_desk(set_(tmp_path, approval_expiry_action="reject"), doings).rejects_expired


def test_failures_change_plans_as_is_set(tmp_path: Path) -> None:
    high, critical, medium = Severity.HIGH, Severity.CRITICAL, Severity.MEDIUM
    assert replan_rules(set_(tmp_path)) == ReplanRules(
        severities=frozenset({critical, high}), max_attempts=3, human_after=2,
        min_interval=timedelta(),
    )  # fmt: skip
    only = {"replanning_trigger_critical": False, "replanning_trigger_high": False}
    given = set_(
        tmp_path, **only, replanning_trigger_medium=True, replanning_max_attempts=4,
        replanning_human_after=5, replanning_min_interval=6,
    )  # fmt: skip
    assert replan_rules(given) == ReplanRules(
        severities=frozenset({medium}), max_attempts=4, human_after=5,
        min_interval=timedelta(seconds=6),
    )  # fmt: skip
    off = set_(tmp_path, auto_replanning=False, replanning_trigger_medium=True)
    assert replan_rules(off).severities == frozenset()


def test_programs_are_looked_for_where_no_agent_writes(tmp_path: Path) -> None:
    roots = (tmp_path / "a", tmp_path / "b")
    found = open_programs(set_(tmp_path, roots=roots), "/opt/bin")
    assert (found.path, found.roots) == ("/opt/bin", roots)
    assert open_programs(set_(tmp_path), None).path == DEFAULT_PATH


def test_a_single_call_is_judged_in_a_conversation_of_nobody(tmp_path: Path) -> None:
    plain = bare_thread(tmp_path)
    assert (plain.session_id, plain.name, plain.script) == ("", "tool", "")
    assert (plain.agent, plain.locale, plain.workspace, plain.remote) == (
        "universal", "en", tmp_path, False,
    )  # fmt: skip
    other = bare_thread(tmp_path, "coder", locale="ru", remote=True)
    assert (other.agent, other.locale, other.remote) == ("coder", "ru", True)


def test_instructions_are_read_where_no_rule_is_against_it_for_any_agent(tmp_path: Path) -> None:
    rules = tmp_path / "config" / "rules.toml"
    rules.parent.mkdir()
    rules.write_text(
        '[[rule]]\ntool = "read_file"\npath = "a/**"\ndecision = "deny"\n'
        '[[rule]]\ntool = "read_file"\npath = "b/**"\nagent = "coder"\ndecision = "ask"\n'
    )
    reader = open_reader(set_(tmp_path))

    assert [reader.barred(f"{name}/AGENTS.md") for name in "abc"] == [True, True, False]
    assert (reader.own, reader.on) == (tmp_path / "config", True)
    assert not open_reader(set_(tmp_path, instructions=False)).on


def test_which_models_are_asked_is_told_without_asking_them(tmp_path: Path) -> None:
    settings = set_(tmp_path, model="demo")
    assert look_at_models(settings, {}) == [RoleReport(role="plan", models=["demo"], problems=[])]
    settings.models_file.parent.mkdir()
    settings.models_file.write_text(
        '[[role]]\nname = "work"\nmodel = "demo"\n'
        '[[role]]\nname = "plan"\neffort = "high"\nfallback = ["demo"]\n'
    )
    bare = set_(tmp_path)
    found = {report.role: report for report in look_at_models(bare, {})}

    assert list(found) == ["plan", "work", "route", "compact", "review"]
    assert (found["work"].models, found["work"].problems) == (["demo"], [])
    assert found["plan"].models == ["the configured model (effort high)", "demo (effort high)"]
    assert (len(found["plan"].problems), found["plan"].works) == (1, True)
    assert found["review"] == RoleReport(role="review", models=["demo"], problems=[])
    bare.models_file.write_text('[[role]]\nname = "work"\neffort = "low"\n')
    nothing = look_at_models(bare, {})
    assert [report.works for report in nothing] == [False] * 5
    assert nothing[1].models == ["the configured model (effort low)"]
    assert "GONOGO_MODEL" in nothing[1].problems[0]


PROVIDER = {
    "oidc_issuer": "https://idp.example", "oidc_audience": "gonogo", "oidc_role_claim": "r.s",
    "oidc_roles": "a=admin,v=viewer", "oidc_name_claim": "nick",
}  # fmt: skip


def test_a_provider_of_identities_is_known_as_it_is_set(tmp_path: Path) -> None:
    bearers = open_bearers(set_(tmp_path, **PROVIDER), utc_now)
    assert bearers is not None
    expected, roles = bearers.expected, {"a": Role.ADMIN, "v": Role.VIEWER}
    assert (expected.issuer, expected.audience) == ("https://idp.example", "gonogo")
    assert (expected.role_claim, expected.name_claim, expected.roles) == ("r.s", "nick", roles)
    assert bearers.memory is None
    kept = open_bearers(set_(tmp_path, **PROVIDER, oidc_role_kept=60), utc_now)
    assert kept is not None
    assert kept.memory is not None
    assert (kept.memory.issuer, kept.memory.roles) == ("https://idp.example", roles)
    assert kept.memory.kept == timedelta(seconds=60)
    assert open_bearers(set_(tmp_path), utc_now) is None
    assert memory_of(set_(tmp_path, oidc_role_kept=60)) is None


async def test_each_part_of_a_runtime_has_its_settings(tmp_path: Path) -> None:
    settings = set_(
        tmp_path, snapshot_max_files=11, snapshot_max_bytes=12, keep_checkpoints_days=13,
        retention_days=14, max_steps=15, result_tokens=216, model_patience=17, plan_timeout=18,
        strategy="plan_order", max_parallel_agent=19, max_parallel_workspace=20,
        subtask_timeout=21, on_failure="rollback", max_parallel=22, replan_within_grant=True,
        replanning_timeout=23, locale="ru", budget_plan_tokens=24, unattended=True,
        repo_trusted=False, readers=False, sandbox=False, replanning_max_attempts=25,
    )  # fmt: skip
    model = ScriptedModel({})
    with anyio.fail_after(60):
        async with Runtime.open(
            settings, model=model, idle=True, extensions=Extensions()
        ) as runtime:
            parts = runtime.parts
    rules, loop = parts.engine.rounds.rules, parts.turns.loop

    assert parts.rollbacks.snapshots._limits == SnapshotLimits(files=11, total=12)
    assert (parts.sweeps.days, parts.sweeps.retention) == (13, 14)
    assert (loop.max_requests, loop.contexts.result_tokens) == (15, 216)
    assert (parts.turns.patience, rules.patience, rules.plan_timeout) == (17, 17, 18)
    assert (rules.strategy, rules.max_per_agent, rules.max_per_workspace) == ("plan_order", 19, 20)
    assert rules.replanning == replan_rules(settings)
    assert (parts.runner.timeout, parts.runner.retreat is None) == (21, False)
    assert (parts.planning.max_parallel, parts.replanning.within_grant) == (22, True)
    assert (parts.inbox.locale, rules.budget) == ("ru", {"tokens": 24})
    assert loop.contexts.meter.limits == {"tokens": 24}
    assert parts.engine.rounds.questions.attended is parts.gate.attended is False
    assert (parts.gate.repo_trusted, parts.gate.readers, parts.gate.sandbox) == (False, False, None)
    assert (parts.erasures.drafts, parts.erasures.taken) == (settings.drafts, settings.taken)
    assert parts.hands.watches.taken == settings.taken
    assert (parts.models.only, parts.gate.home) == (model, settings.home)
    assert parts.gate.programs.roots == (tmp_path,)
    search = parts.handlers["replan"].__self__
    assert (search.timeout, search.patience) == (23, 17)
    assert set(parts.handlers) == {
        "turn", "plan", "subtask", "replan", "sweep", "watch", "erase", "hook", "ask",
    }  # fmt: skip
