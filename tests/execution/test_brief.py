"""What a subtask is told of the results before it: all in one shape, and each of bounded length."""

from dataclasses import replace

import pytest

from fakes import rows
from gonogo.domain.checks import DoneCheck
from gonogo.domain.plan import Scope
from gonogo.execution.plans.ending import cut, shaped
from gonogo.execution.plans.engine import brief
from gonogo.execution.scheduling import Step, Work
from gonogo.i18n import say


def test_a_long_result_is_cut_and_says_how_much_is_left_out():
    assert cut("x" * 10, 10, "en") == "x" * 10
    assert cut("x" * 17, 10, "en") == "x" * 10 + "… (7 more characters)"
    assert cut("x" * 17, 10, "ru") == "x" * 10 + "… (ещё символов: 7)"
    assert cut({"a": 1}, 4, "en") == '{"a"… (4 more characters)'


@pytest.mark.parametrize("result", [None, "text", ["a"], {"answer": 42}])
def test_a_result_of_any_other_shape_is_the_output_and_has_no_metadata(result):
    assert shaped(result, "completed") == {"status": "completed", "output": result, "metadata": {}}


def test_a_result_that_has_the_shape_keeps_what_it_says_but_not_its_status():
    given = {"output": "done", "metadata": {"files": 1}, "status": "failed"}
    assert shaped(given, "completed") == {**given, "status": "completed"}
    assert shaped({"output": 1}, "skipped") == {"output": 1, "metadata": {}, "status": "skipped"}


def step(*, failed=None, **more):
    done = rows.subtask("look", agent=None, tool="list_files")
    sub = rows.subtask("build", "look", **more)
    work = Work(key="p1/1/build", revision=rows.revision(done, sub), subtask=sub, epoch=1)
    result = {"status": "completed", "output": "x" * 4_001, "metadata": {"agent": "ю"}}
    return Step(
        work=work, attempt=2, inputs={"which": "ю"}, results={"look": result},
        now=lambda: rows.NOW, failed=failed,
    )  # fmt: skip


def test_a_brief_says_all_that_a_subtask_has_to_know_in_order():
    checks = (DoneCheck(file_exists="out"), DoneCheck(ask="Is it?"))
    whole = step(failed="it \x1b[2J lacked", scope=Scope(paths=("ю/**",)), done_when=checks)
    parts = brief(whole, "en", "model_judge", ["first", "second"]).split("\n\n")

    told = say("model_subtask", "en", goal="A goal", subtask="build", description="Do build")
    opening = told.split("\n\n")
    assert parts[: len(opening)] == opening
    assert parts[len(opening) :] == [
        say("model_subtask_scope", "en", scope='{"paths": ["ю/**"]}'),
        say("model_subtask_checks", "en", checks="\n".join(f"- {c.text}" for c in checks)),
        say("model_subtask_again", "en", said='{"failure": "it \\u001b[2J lacked"}'),
        '{"inputs": {"which": "ю"}}',
        say("model_subtask_results", "en"),
        say(
            "model_dependency", "en", subtask="look", description="Do look", agent="list_files",
            status="completed", metadata='{"agent": "ю"}',
            output=f"{'x' * 4_000}… (1 more characters)",
        ),
        say("model_subtask_steered", "en"), "first", "second", say("model_judge", "en"),
    ]  # fmt: skip


def test_a_brief_leaves_out_what_there_is_not_and_of_many_words_the_oldest():
    alone = rows.subtask("a")
    work = Work(key="p1/1/a", revision=rows.revision(alone), subtask=alone, epoch=1)
    bare = Step(work=work, attempt=1, inputs={}, results={}, now=lambda: rows.NOW)
    opening = say("model_subtask", "ru", goal="A goal", subtask="a", description="Do a")

    assert brief(bare, "ru") == opening
    words = [f"word {number}" for number in range(21)]
    told = brief(bare, "ru", None, words).split("\n\n")
    assert told == [*opening.split("\n\n"), say("model_subtask_steered", "ru"), *words[1:]]


async def test_a_step_knows_when_its_work_began_and_what_it_gives():
    found = step()
    assert found.since == rows.NOW
    began = replace(found.work, since=rows.NOW.replace(hour=1))
    earlier = Step(
        work=began, attempt=1, inputs={}, results={}, now=lambda: rows.NOW
    )  # fmt: skip
    assert earlier.since == rows.NOW.replace(hour=1)
    assert found.done("x", agent="coder").result == {
        "status": "completed", "output": "x", "metadata": {"agent": "coder"},
    }  # fmt: skip
    assert found.done().result == {"status": "completed", "output": None, "metadata": {}}
    await found.wait(-1)
