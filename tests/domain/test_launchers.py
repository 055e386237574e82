"""Programs that start others are known by whatever name, and so are the options that do."""

import pytest

from gonogo.domain.commands import family, reads_words, started_at, starts_others
from gonogo.domain.findings import irreversible


@pytest.mark.parametrize(
    ("program", "known_as"),
    [
        ("bash", "bash"), ("/bin/bash", "bash"), ("/bin/bash/", "bash"), ("BASH", "bash"),
        ("bash-static", "bash"), ("python3", "python"), ("/usr/bin/Python3.12", "python"),
        ("pypy3.10", "pypy"), ("lua5.4", "lua"), ("ksh93", "ksh"), ("vim.tiny", "vim"),
        ("pwsh.exe", "pwsh"), ("Rscript", "rscript"), ("gdb-multiarch", "gdb"), ("r2", "r2"),
        ("x86_64", "x86_64"), ("i386", "i386"), ("ld.so", "ld.so"), ("gtar", "tar"),
        ("ld-linux-x86-64.so.2", "ld.so"), ("ld-musl-x86_64.so.1", "ld.so"), ("gxargs", "xargs"),
        ("gtimeout", "timeout"), ("git", "git"), ("gnu", "gnu"), ("Unknown", "Unknown"),
        ("/x/Unknown-1.2", "Unknown-1.2"),
    ],
)  # fmt: skip
def test_a_program_is_known_by_each_of_its_names(program, known_as):
    assert family(program) == known_as


@pytest.mark.parametrize(
    ("program", "word"),
    [
        ("find", "-exec"), ("find", "-okdir"), ("unknown", "-exec"), ("unknown", "--pager"),
        ("unknown", "--pager=x"), ("sort", "--compress-program"), ("sort", "--compress-program=x"),
        ("sort", "--comp"), ("sort", "--co=x"), ("rg", "--pre"), ("rg", "--pr=x"), ("tar", "-I"),
        ("tar", "-xIf"), ("tar", "--to-c"), ("rsync", "-ave"), ("zip", "-TT"),
        ("go", "-toolexec=x"),
    ],
)  # fmt: skip
def test_an_option_that_starts_a_program_is_known_however_it_is_shortened(program, word):
    assert starts_others(word, program)


@pytest.mark.parametrize(
    ("program", "word"),
    [
        ("sort", "--check"), ("sort", "--"), ("sort", "-k1"), ("sort", "comp"), ("rg", "--pretty"),
        ("rg", "-pre"), ("tar", "-xf"), ("tar", "I"), ("pytest", "--co"), ("unknown", "--pag"),
        ("unknown", "-e"), ("rsync", "a-e"), ("zip", "-T"),
    ],
)  # fmt: skip
def test_other_words_are_no_such_options(program, word):
    assert not starts_others(word, program)


@pytest.mark.parametrize(
    ("command", "started"),
    [
        ("env A=1 rm x", ["rm x"]),
        ("env -u A -- rm x", ["-u A -- rm x", "A -- rm x", "-- rm x", "rm x", "x"]),
        ("timeout -k 1 --signal=KILL 5s nice -n 9 rm x", ["nice -n 9 rm x", "rm x"]),
        ("timeout rm x", ["rm x", "x"]),
        ("xargs -0 -n 1 rm x", ["rm x"]),
        ("uv run nice $X rm", ["nice $X rm", "$X rm", "rm"]),
        ("/usr/bin/nice rm", ["rm"]),
        ("npx eslint", ["eslint"]),
        ("uv -q run rm x", ["rm x", "x"]),
        ("uv sync", []),
        ("pnpm init", []),
        ("yarn dlx rm", ["rm"]),
        ("direnv exec . rm", [". rm", "rm"]),
        ("direnv allow", []),
        ("docker exec c rm", ["c rm", "rm"]),
        ("docker rm c", []),
        ("kubectl get x -- rm", ["rm"]),
        ("vagrant halt", []),
        ("ls rm", []),
    ],
)
def test_what_a_launcher_may_start_begins_behind_it(command, started):
    words = command.split()
    assert [" ".join(words[start:]) for start in started_at(words)] == started


@pytest.mark.parametrize(
    ("program", "reads"),
    [("watch", True), ("hyperfine", True), ("ssh", True), ("vim", True), ("fish", True),
     ("timeout", False), ("xargs", False), ("python", False), ("ls", False)],
)  # fmt: skip
def test_some_take_a_word_for_a_whole_command(program, reads):
    assert reads_words(program) == reads


@pytest.mark.parametrize(
    ("command", "final"),
    [
        ("timeout 5 rm x", "rm x"), ("A=1 rm x", "rm x"), ("chronic git push", "git push"),
        ("uv run rm x", "rm x"), ("docker compose up", None), ("A=1", None),
        ("ls rm", None), ("rm x", "rm x"),
    ],
)  # fmt: skip
def test_what_a_launcher_starts_is_as_final_as_without_it(command, final):
    assert irreversible(command) == final
