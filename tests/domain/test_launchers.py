"""Programs that start others are known by whatever name, and so are the options that do."""

import pytest

from gonogo.domain.commands import family, here, reads_words, started_at, starts_others
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


class Copied(list):
    """Words that count how many of them are copied."""

    copied = 0

    def __getitem__(self, at):
        found = super().__getitem__(at)
        self.copied += len(found) if isinstance(at, slice) else 0
        return found


def test_what_stands_behind_each_of_many_launchers_is_not_copied():
    words = Copied(["nice"] * 2_000)
    assert len([*started_at(words)]) == 1_999
    assert words.copied < 30 * len(words)


@pytest.mark.parametrize(
    ("command", "read"),
    [
        ("docker exec c su", "docker exec"),
        ("docker run i su", "docker run"),
        ("timeout 5 docker -H x exec c su", "timeout 5 docker -H x exec"),
        ("docker ps", "docker ps"),
        ("docker run -it -v /:/h i su", "docker run -it -v /:/h i su"),
        ("podman run --privileged i su", "podman run --privileged i su"),
        ("docker exec c pytest -v", "docker exec"),
        ("ssh -p 22 -qi k u@h -t su -c x", "ssh -p 22 -qi k u@h -t"),
        ("ssh h", "ssh h"),
        ("ssh -o ProxyCommand=su u@localhost x", "ssh -o ProxyCommand=su u@localhost x"),
        ("ls su", "ls su"),
    ],
)
def test_what_another_machine_reads_is_not_read_here(command, read):
    assert " ".join(here(command.split())) == read


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
