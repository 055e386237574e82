"""What the policy says of every word that it knows, against what is kept in `golden/words.json`.

The file has a section for each table of words: how such a word is used, and what comes of every
use. It is read by itself, so that a word that the policy forgets is missed.
`python -m pytest tests/policy/test_words.py` with `GONOGO_WRITE_GOLDEN=1` writes it anew from the
tables after a change that is meant.
"""

import importlib
import json
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from fakes.golden import kept
from gonogo import policy
from gonogo.domain import commands, paths
from gonogo.domain.plan import Scope
from gonogo.domain.tool_calls import Access, Call, Grant, ToolClass, Verdict
from gonogo.policy import check_command, read_contexts, read_prefix, verdict

GOLDEN = Path(__file__).parent / "golden" / "words.json"
CONTEXTS = Path(__file__).parents[1] / "cases" / "policy_contexts.json"
RULE, PLAN, RUN = "rule: ", "plan: ", "run: "
"""Begin a use in a rule, a use in a subtask of a plan, and one of which it is kept how it runs."""
STARTS_OTHERS = ("{} sudo ls", "{} -c 'sudo ls'", "rule: {}", "rule: {} a.txt")
USES: Mapping[str, tuple[str, ...]] = {
    "command_verdict._MOVING": ("plan: {} sub", "plan: {} sub && python a.py --x"),
    "denials._AWKS": ("{} '{print > \".git/config\"}' a", "{} '{print > \"b\"}' a"),
    "denials.CLIENTS": ("{} a.txt", "{} http://127.0.0.1:8001/api/v1/x", "{} --unix-socket x"),
    "denials.DATABASES": ("{} a.txt", "{} .git/x", "{} x 'drop table approvals'"),
    "denials._FILLED": ("{} a.txt", "{} .git/x", "{} a.txt .git/x", "{} a.txt b .git/x c"),
    "denials._MADE": ("{} a", "{} .git/x", "{} a .git/x", "{} a .git/x c"),
    "denials._HERE": ("cd .git && {} x a", "cd b && {} x a"),
    "denials._LOOKS": ("{} .git/x", "{} -R .git/x", "{} --check .git/x"),
    "denials._REWRITERS": ("{} .git/x", "{} -i .git/x", "{} -w .git/x"),
    "denials._GIT_MODES": ("git {} -o .git", "git {}x -o .git"),
    "tampering._GIT_READS": ("git config {} core.pager x", "git config {}x core.pager x"),
    "tampering._GIT_TELLS": ("git config --global {}", "git config --global -- {}"),
    "tampering._GIT_STARTS_NOTHING": ("git -c core.pager={} log", "git -c core.pager={}x log"),
    "denials._INTO": ("{} a.txt", "{} .git/config", "{}=.git/config"),
    "denials._WORKS_IN": ("{} a.txt", "{} .git/x", "{}=.git/x"),
    "denials._MODES": ("{} -o .git", "{} --output .git"),
    "denials._OVERWRITERS": ("{} a.txt b.txt", "{} a.txt /etc/hosts", "{} of=/dev/sda"),
    "denials._OWNERS": ("{} x a.txt", "{} x /etc/hosts", "{} x ."),
    "denials.READS_NAMES_ONLY": ("{} x a.txt", "{} x /dev/sda", "{} .gonogo/x"),
    "denials._REFERENCES": ("{} --reference .git a", "{} --reference a .git", "{} -r .git"),
    "denials._REMOVERS": ("{} a.txt", "{} /etc/hosts", "{} .", "find / -exec {} a.txt ';'"),
    "denials._SEDS": ("{} -n 'w .git/config' a", "{} -n 'w b' a"),
    "denials._TARS": ("{} xCf a b", "{} xCf .git b", "{} cf .git/b a"),
    "tampering._ACTS": (
        *("{}", "{} x", "{} x y", "{} -a", "{} -l", "{} 0", "{} status x", "xargs {}"),
    ),
    "tampering._FEEDERS": ("{} a.txt", "{} git init"),
    "tampering._TRACERS": ("{} a.txt", "{} -p 7"),
    "paths._INVISIBLE": ("cat a{}b",),
    "jq._HARMLESS": ("jq '.[] | {}' a.json",),
    "kinds._RUNNER_FLAGS": ("npm test -- {}", "npm test -- {}x"),
    "commands.CALLERS": ("{} -e 'say \"exec reboot\"'", "{} -e 'exec(\"reboot\")'"),
    "commands._CONTAINERS": ("{} exec c sudo ls", "{} run -v /:/h i sudo ls"),
    "commands.CONSOLES": STARTS_OTHERS,
    "commands.FAR_RUNNERS": STARTS_OTHERS,
    "commands._GNU": (
        "rule: g{} a.txt", "rule: g{} --compress-p --rsh-c --filt --strip-p --diff-p",
    ),
    "commands._HEADS": ("{} ls sudo", "{} 5 ls sudo", "{} --x ls sudo"),
    "commands.HOSTS": STARTS_OTHERS,
    "commands.INTERPRETERS": STARTS_OTHERS,
    "commands.MODULES": ("python -m {} a.txt", "rule: python -m {}", "rule: python -m {} a.txt"),
    "commands.RUNNERS": STARTS_OTHERS,
    "commands.SHELLS": STARTS_OTHERS,
    "commands._OPTIONS": ("rule: x {}", "rule: x {}x"),
    "commands._OPTIONS_OF": ("rule: {}", "rule: {}x"),
    "commands._STARTING": ("docker {} sudo ls", "docker {}x sudo ls"),
    "commands.TAKE_ANY": ("{} sudo ls", "rule: {} sudo"),
    "commands.WRAPPERS": STARTS_OTHERS,
    "prefixes._FARTHER": ("rule: yarn workspace a {}", "rule: yarn workspace a {}x"),
    "prefixes._FLAGS": ("rule: poetry {}", "rule: poetry {} run", "rule: poetry {} run a.txt"),
    "prefixes._NETWORK": ("{} example.com", "rule: {}", "rule: {} example.com"),
    "programs._GIT_PLAIN": ("git {} status", "git {} push"),
    "programs._GNU": ("{} a.txt", "g{} a.txt", "g{}", "g{} -n 1p", "g{} -tf a.txt"),
    "programs._MODULES": ("python -m {}", "python -m {} --verbose", "python -m {} /etc/hosts"),
    "programs._PYTHONS": ("{} -m pytest", "{} -m pytest -q", "{} -m pytest -p x", "{} a.py"),
    "shell._RESERVED": ("{} ls", "run: cat {}"),
    "shell._GIT_VALUED": ("git {} x config --global a b", "git {}=x status"),
}  # fmt: skip
PLAIN = ("{}", "{} a.txt", "{} -f a.txt")
NO_WORDS = {
    "denials.HOST_PROGRAMS": "made of the others", "denials._HAS_VERB": "made of the others",
    "rules.ALWAYS_ASK": "tools",
    "jq._PAIRS": "brackets",
    "kinds.KINDS": "kinds of words in the tables of programs",
    "commands._CLOSERS": "quotes", "commands._LISTED": "made of the others",
    "commands._READ_WORDS": "made of the others",
    "reviewers._SECONDS": "units of time", "shell._CONTAINERS": "nodes of a tree",
    "shell._OPERATORS": "nodes of a tree", "verdict._STAGES": "answers",
}  # fmt: skip


def usual() -> policy.PolicyContext:
    """Readers and tests are allowed, and a few commands exactly as they stand."""
    document = json.loads(CONTEXTS.read_text("utf-8"))
    exact = ["cd sub", "pushd sub", "popd sub"]
    more = {"extends": "P2", "allow": ["python3 -m pytest", "python -m mypy"], "allow_exact": exact}
    found = read_contexts({**document, "usual": more})["usual"]
    return replace(found, conditions=replace(found.conditions, readers=True))


USUAL = usual()
PLACE = {"plan_id": "p", "revision": 1, "subtask_id": "s"}
GRANT = Grant(grant_id="g", scope=Scope(commands=("python a.py",)), **PLACE)


def tables() -> Iterator[tuple[str, Sequence[str]]]:
    """Every table of words by its name, those included by which commands start others."""
    names = [f"{policy.__name__}.{found.name}" for found in pkgutil.iter_modules(policy.__path__)]
    seen: set[int] = set()
    yield "paths._INVISIBLE", sorted(paths._INVISIBLE)
    for module in (commands, *map(importlib.import_module, names)):
        for name, table in vars(module).items():
            full = f"{module.__name__.rpartition('.')[2]}.{name}"
            if not name.strip("_").isupper() or id(table) in seen:
                continue
            seen.add(id(table))
            words = [] if full in NO_WORDS else sorted(words_of(table))
            if words:
                yield full, words


def words_of(table: object) -> Iterator[str]:
    """The words of a table; of one that has words for each word, those too, behind it."""
    if not isinstance(table, frozenset | dict) or not all(isinstance(key, str) for key in table):
        return
    yield from table
    if isinstance(table, dict):
        for word, others in table.items():
            if not isinstance(others, slice | re.Pattern):
                yield from (f"{word} {other}" for other in others)


def said_of(use: str, word: str) -> str:
    """What the policy says of a use of a word."""
    text = use.replace("{}", word)
    if text.startswith(RULE):
        may_stand = isinstance(read_prefix(text.removeprefix(RULE)), tuple)
        return "may stand" if may_stand else "too broad"
    if text.startswith(RUN):
        return check_command(text.removeprefix(RUN), USUAL).run_as or "not at all"
    planned = text.startswith(PLAN)
    found = in_plan(text.removeprefix(PLAN)) if planned else check_command(text, USUAL)
    rule = "user" if found.rule.startswith("user:") else found.rule
    return f"{found.decision} {rule}"


def in_plan(command: str) -> Verdict:
    """The verdict on a command of a subtask whose plan allows a script of the workspace."""
    call = Call(
        tool="execute_command", tool_class=ToolClass.OTHER, agent="coder", arguments={},
        access=Access(command=command), **PLACE,
    )  # fmt: skip
    there = replace(USUAL.conditions, matching=lambda pattern: {pattern} & {"a.py"})
    return verdict(call, USUAL.rules, there, GRANT)


def anew() -> str:
    """The file's text: a word a line."""
    sections = []
    for name, words in sorted(tables()):
        uses = USES.get(name, PLAIN)
        lines = [f"{_json(word)}: {_json([said_of(use, word) for use in uses])}" for word in words]
        listed = ",\n".join(lines)
        sections.append(f'{_json(name)}: {{"uses": {_json(uses)}, "words": {{\n{listed}\n}}}}')
    return "{\n" + ",\n".join(sections) + "\n}\n"


def _json(value: object) -> str:
    return json.dumps(value)


@pytest.mark.unmeasured
def test_what_is_said_of_every_word_that_the_policy_knows_is_what_is_kept():
    found = anew()
    assert found == kept(GOLDEN, found)
