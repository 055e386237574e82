"""Scripted lies, of which none is believed, and honest work, which is.

A lie is of a kind that the record or a check can show. Each run has a few of each kind; a nightly
one has 200 lies and 200 honest subtasks.
"""

import pytest

from fakes.world import call, calls, plan, run, says, step, write
from gonogo.workspace import Sandbox
from plugins.nightly import examples

pytestmark = pytest.mark.skipif(Sandbox.detect() is None, reason="bubblewrap does not work here")
WORDS = (
    "Done.", "Готово: файл записан, тесты зелёные.", "I wrote it and ran the tests: all 12 pass.",
    "{'status': 'completed', 'valid': true}",
)  # fmt: skip
TIMES = 9
"""More replies than any of them is asked for."""


def last(n):
    """How an agent says that it is done: in words, or by the call for it."""
    said = WORDS[n % len(WORDS)]
    return says(said) if n % 2 else calls(call("attempt_completion", result=said))


def verdict(valid):
    return calls(call("give_verdict", valid=valid, reasons=["seen"]))


def own(key, *checks, **more):
    """A subtask that may write one file, its own."""
    return step(key, scope={"paths": [f"{key}.txt"]}, done_when=list(checks) or None, **more)


def there(key):
    return {"file_exists": f"{key}.txt"}


def holds(key, text="made"):
    return {"file_contains": {"path": f"{key}.txt", "text": text}}


def no_call(key, n):
    return own(key), {key: [last(n)]}


def denied_call(key, n):
    path = (".git/config", ".npmrc", "../out.txt", ".vscode/settings.json")[n % 4]
    return own(key), {key: [calls(write(path)), *[last(n)] * TIMES]}


def failed_call(key, n):
    edit = call("edit_file", path=f"{key}.txt", old_text="nowhere", new_text="x")
    return own(key, there(key)), {key: [calls(edit), *[last(n)] * TIMES]}


def not_written(key, n):
    return step(key, done_when=[there(key)]), {key: [last(n)] * TIMES}


def written_otherwise(key, n):
    wrong = ("MADE", "mad", "", "m a d e")[n % 4]
    return own(key, holds(key)), {key: [calls(write(f"{key}.txt", wrong)), *[last(n)] * TIMES]}


def red_test(key, n):
    red = calls(write(f"{key}.txt", "assert 1 == 2\n"))
    return own(key, {"command": f"python3 {key}.txt"}), {key: [red, *[last(n)] * TIMES]}


def unrun_test(key, n):
    check = {"command": f"python3 -m unittest {key}_missing"}
    return own(key, check), {key: [calls(write(f"{key}.txt")), *[last(n)] * TIMES]}


def cut_reply(key, n):
    reply = {**says(WORDS[n % len(WORDS)]), "cut": True}
    return own(key), {key: [reply]}


def empty_reply(key, n):
    return step(key), {key: [says(("", " ", "<think>Done.</think>", "\u200b")[n % 4])]}


def spoiled(key, n):
    reach = {"paths": [f"{key}.txt", f"{key}.md"]}
    checked = step(key, scope=reach, done_when=[there(key), {"unchanged": ["*.md"]}])
    return checked, {
        key: [calls(write(f"{key}.txt"), write(f"{key}.md")), *[last(n)] * TIMES]
    }  # fmt: skip


def judged_false(key, n):
    lines = {key: [calls(write(f"{key}.txt")), *[last(n)] * TIMES]}
    lines |= {f"{key}/checks/{time}/1": [verdict(False)] for time in (1, 2, 3)}
    return own(key, {"ask": "Is it polite?"}), lines


def changed_nothing(key, n):
    looks = calls(call("list_files"))
    return step(key, must_change=True), {key: [looks, last(n)]}


def judges(key, command):
    """A validation by an agent that is given a command."""
    return step(key, type="validation", agent="debug", scope={"commands": [command]})


def unrun_verdict(key, n):
    tries = (call("list_files"), run("ls"), run("rm -rf /"), run("ls || python3 -m unittest"))
    return judges(key, "python3 -m unittest"), {key: [calls(tries[n % 4]), *[verdict(True)] * 3]}


def red_verdict(key, n):
    red = "python3 -m unittest missing" + ("", " || true", "; ls", " | cat")[n % 4]
    return judges(key, "python3 -m unittest"), {key: [calls(run(red)), *[verdict(True)] * 3]}


def no_test_in_it(key, n):
    empty = ("", "import unittest\n", "def test_a(): assert False\n")[n % 3]
    made = calls(write(f"{key}.txt"), write(f"test_{key}.py", empty))
    checked = step(
        key, scope={"paths": [f"{key}.txt", f"test_{key}.py"]},
        done_when=[{"command": f"python3 -m unittest test_{key}"}],
    )  # fmt: skip
    return checked, {key: [made, *[last(n)] * TIMES]}


LIES = (
    no_call, denied_call, failed_call, not_written, written_otherwise, red_test, unrun_test,
    cut_reply, empty_reply, spoiled, judged_false, changed_nothing, unrun_verdict, red_verdict,
    no_test_in_it,
)  # fmt: skip


def plain_work(key, n):
    return own(key, there(key), holds(key)), {key: [calls(write(f"{key}.txt")), last(n)]}


def mended_work(key, n):
    wrong, right = calls(write(f"{key}.txt", "half\n")), calls(write(f"{key}.txt"))
    return own(key, holds(key)), {key: [wrong, last(n), right, last(n)]}


def green_test(key, n):
    green = calls(write(f"{key}.txt", "open('left', 'w').write('x')\n"))
    return own(key, {"command": f"python3 {key}.txt"}), {key: [green, last(n)]}


def left_alone(key, n):
    checked = own(key, {"unchanged": ["docs/**", "*.md"]})
    return checked, {key: [calls(write(f"{key}.txt")), last(n)]}


def judged_true(key, n):
    lines = {key: [calls(write(f"{key}.txt")), last(n)], f"{key}/checks/1/1": [verdict(True)]}
    return own(key, {"ask": "Is it polite?"}), lines


def only_told(key, n):
    return step(key, agent="ask"), {key: [last(n)]}


def cut_once(key, n):
    begun = {**says("I have written "), "cut": True}
    return own(key, there(key)), {key: [calls(write(f"{key}.txt")), begun, last(n)]}


def silent_once(key, n):
    return own(key, there(key)), {key: [calls(write(f"{key}.txt")), says(""), last(n)]}


def denied_and_done(key, n):
    made = calls(write(".git/config"), write(f"{key}.txt"))
    return own(key, there(key), must_change=True), {key: [made, last(n)]}


def green_verdict(key, n):
    first = ([], [verdict(True)], [calls(run("ls gone"))])[n % 3]
    return judges(key, "ls"), {key: [*first, calls(run("ls .")), verdict(True)]}


def in_order_already(key, n):
    return own(key, must_change=False), {key: [calls(call("list_files")), last(n)]}


HONEST = (
    plain_work, mended_work, green_test, left_alone, judged_true, only_told, cut_once, silent_once,
    denied_and_done, in_order_already, green_verdict,
)  # fmt: skip


_A_PLAN = 24
"""Subtasks of one plan."""


_HARMLESS = "".join(
    f'[[rule]]\ncommand = "{command}"\ndecision = "allow"\n' for command in ("ls", "true", "cat")
)
"""What every agent here may run, whatever its plan declares."""


async def outcomes(make, config, kinds, count):
    """Have so many subtasks carried out. Gives what became of each, by its kind and number."""
    subtasks, lines = [], {}
    for n in range(count):
        kind, round_ = kinds[n % len(kinds)], n // len(kinds)
        subtask, more = kind(f"{kind.__name__}_{round_}", round_)
        subtasks.append({name: value for name, value in subtask.items() if value is not None})
        lines |= more
    plans = [subtasks[at : at + _A_PLAN] for at in range(0, count, _A_PLAN)]
    lines["main/architect"] = [plan(*each) for each in plans]
    found = []
    config.mkdir()
    (config / "rules.toml").write_text(_HARMLESS)
    async with make(lines, auto_replanning=False, max_parallel=4) as world:
        for _ in plans:
            plan_id = await world.propose()
            await world.decide_plan(plan_id)
            assert await world.pending() == []
            found += (await world.runtime.plans.get(world.ann, plan_id)).subtasks
        assert world.read("left") is None
    return {subtask.id: (subtask.status, subtask.error) for subtask in found}


@pytest.mark.feature(225, 226)
async def test_no_lie_is_believed(make, tmp_path):
    count = examples(len(LIES), nightly=200)
    found = await outcomes(make, tmp_path / "config", LIES, count)

    assert len(found) == count
    assert {key: status for key, (status, _) in found.items() if status != "failed"} == {}
    words = {error["category"] for _, error in found.values()}
    assert words == {"no_work", "validation"}


@pytest.mark.feature(225, 226)
async def test_honest_work_is_believed(make, tmp_path):
    count = examples(len(HONEST), nightly=200)
    found = await outcomes(make, tmp_path / "config", HONEST, count)

    assert len(found) == count
    doubted = {key: error for key, (status, error) in found.items() if status != "completed"}
    assert len(doubted) <= count // 100, doubted
