"""What is allowed is what bash would run, and only reads: shown on mutants of the cases.

`scripts/mutants` does the same with a hundred thousand.
"""

import itertools
import random

import pytest

from gonogo.policy import ParsedCommand, check_command, parse_command
from gonogo.workspace import Sandbox
from mutants.bash import TracedBash
from mutants.canary import Canary, readers
from mutants.check import Judge, Tally, compare, seeds
from mutants.manuals import complaint
from mutants.more import EVERYTHING, LINES, everything
from mutants.mutator import Seed, mutants
from mutants.reading import expected
from mutants.sweep import sweep
from mutants.workspace import build
from plugins.nightly import examples

FIXED = 20_261


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    """The sandbox, and a workspace with secrets in it."""
    sandbox = Sandbox.detect()
    if sandbox is None:
        pytest.skip("what bash would run is only tried where bubblewrap works")
    root = tmp_path_factory.mktemp("mutants").resolve()
    build(root)
    return sandbox, root


def _tally(box, count, seed):
    sandbox, root = box
    tally = Tally()
    judge = Judge(TracedBash(sandbox, root), root)
    judge.judge(itertools.islice(mutants(seeds(), seed), count), tally)
    return tally


@pytest.mark.unmeasured
@pytest.mark.parametrize(("fixed", "count"), [(FIXED, examples(500, nightly=1_500)), (None, 500)])
def test_no_mutant_is_allowed_that_bash_or_a_manual_reads_otherwise(box, fixed, count):
    # Drawn here, so that all workers of a run collect the same tests.
    seed = fixed or random.SystemRandom().randrange(1_000_000)
    print(f"scripts/mutants --seed {seed} --count {count}")  # noqa: T201 - how to repeat it
    tally = _tally(box, count, seed)

    assert tally.wrong == [], f"scripts/mutants --seed {seed} --count {count}"
    assert tally.decisions["allow"] > count / 10


def test_what_is_allowed_changes_no_file_and_shows_no_secret(box):
    sandbox, root = box
    judge = Judge(TracedBash(sandbox, root), root)
    verdicts = [judge.verdict(Seed(line, EVERYTHING, allowed=True)) for line in LINES]
    allowed = readers(verdict.run_as for verdict in verdicts if verdict.run_as)

    assert len(allowed) > 0.8 * len(LINES)
    assert Canary(sandbox, root).spills(allowed) == []


@pytest.mark.unmeasured
def test_no_option_of_a_program_that_walks_shows_a_secret(box):
    sandbox, root = box
    judge = Judge(TracedBash(sandbox, root), root)
    lines = [
        line for line in sweep() if line.startswith(("rg KEY --", "grep -r KEY --", "diff -r src"))
    ]
    verdicts = [judge.verdict(Seed(line, EVERYTHING, allowed=True)) for line in lines]
    allowed = readers(verdict.run_as for verdict in verdicts if verdict.run_as)
    # All that concern patterns of names, and a part of the rest.
    named = [run_as for run_as in allowed if "'--iglob=*" in run_as or "include=" in run_as]

    assert named
    assert Canary(sandbox, root).spills([*named, *allowed[::8]]) == []


def test_ordinary_work_with_every_known_program_is_allowed():
    context = everything()

    assert [line for line in LINES if check_command(line, context).decision != "allow"] == []


MISREAD = """
ls; rm x -> ls
ls && rm x -> ls
rm x | ls -> ls
ls $(id) -> ls
ls `id` -> ls
ls > out -> ls
ls >> a -> ls
> out; ls -> ls
A=1 ls -> ls
A=1; ls -> ls
ls < a -> ls
ls <<< a -> ls
ls & -> ls; ls
[[ a ]]; ls -> ls
ls; ((1)) -> ls
/bin/rm x; ls -> ls
/no/rm x; ls -> ls
ls $HOME -> ls '$HOME'
ls ~ -> ls '~'
ls a{1,2} -> ls 'a{1,2}'
ls src/* -> ls 'src/*'
ls | cat -> ls; cat
ls; cat -> ls | cat
time ls -> 'time' ls
eval ls -> ls
eval 'rm x'; ls -> ls
ls 2>&1 -> ls
ls >/dev/null -> ls
! ls && pwd -> ls && pwd
f() { ls; } -> ls
ls ( -> ls
cat <(ls) -> cat
exec ls -> ls
for x in a b; do ls; done -> ls
ls $((1)) -> ls
"""


def test_the_traced_bash_sees_what_a_reading_has_missed(box):
    sandbox, root = box
    pairs = [line.split(" -> ") for line in MISREAD.strip().splitlines()]
    readings = [parse_command(read_as) for _, read_as in pairs]
    traced = TracedBash(sandbox, root).run([(0, text) for pair in pairs for text in pair])

    for number, (pair, reading) in enumerate(zip(pairs, readings, strict=True)):
        assert isinstance(reading, ParsedCommand)
        wrong, right = traced[2 * number : 2 * number + 2]
        assert compare(expected(reading, 0, root), wrong) is not None, pair
        assert compare(expected(reading, 0, root), right) is None, pair


CHANGES = "touch new;rm a;chmod +x a;echo x > a;ln -s a new".split(";")
SHOWS = """cat .env;cat link-to-outside;grep -R KEY src;grep -R root src;cat src/*;diff -r src docs
cat /etc/passwd""".replace("\n", ";").split(";")


@pytest.mark.parametrize("harm", CHANGES)
def test_the_canary_sees_what_a_command_changes(box, harm, tmp_path):
    sandbox, _ = box
    build(tmp_path)

    assert Canary(sandbox, tmp_path).spills(["ls", harm]) != []


def test_the_canary_sees_what_a_command_shows(box):
    sandbox, root = box

    assert [spill.run_as for spill in Canary(sandbox, root).spills(["ls", *SHOWS])] == SHOWS


HARM = (
    """
find . -delete; find . -exec id +; find . -fprint x; find -files0-from x; sort -o x y
sort --outp=x y; sort -T/tmp y; sed -i p x; sed -n wx y; sed -n p -i x; sed p x; awk 1; tar xf x
tar -tIx -f y; xargs id; env id; tee x; date -s now; date --set=now; rg --pre=x y; rg --pr x y
grep -f/etc/passwd x; grep -d recurse x .; file -C; tree -o x; less x; uniq a b; git -c a=b status
git diff --ext-diff; git log --output=x; git push; git branch new; git -C / status
git branch -D x; git stash; git show HEAD:.env; git log --format=%G?; cat .env; cat src/../.env
cat /etc/passwd; cat ../x; head -n1 secrets/x; grep x .git/config; wc --files0-from=x; tail -f x
diff --from-file=/etc/passwd a; jq env x; jq --rawfile a b x; pytest -p x; pytest --basetemp=x
make x; npm test --prefix x; npm run x; ruff check --fix; mypy --install-types; python x.py; bash
rm x; du -X x
""".strip()
    .replace("\n", "; ")
    .split("; ")
)


@pytest.mark.parametrize("command", HARM)
def test_the_manuals_name_what_does_harm(command):
    assert complaint(command.split()) is not None
