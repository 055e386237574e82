"""Names of files are put only where bash takes each for one word."""

import subprocess
from pathlib import Path
from shlex import quote

import pytest

from gonogo.domain.commands import FILES, files_problem

HOSTILE = (
    "a';touch made;'", 'a";touch made;"', "$(touch made)", "`touch made`", "a\\';touch made;#",
    "a\n touch made\n#", "EOF\ntouch made",
)  # fmt: skip
TAKEN = [
    "ruff check {files}",
    "ruff check --a='b c' {files:*.py} # it's",
    "python3 - {files} <<'END'\nprint('x')\nEND",
    'for f in {files:*.ts, *.tsx}; do echo "$f: $(wc -l "$f")"; done',
    '( cd . && echo {files} ) 2>&1 | sed "s/\'//"',
    "echo $'it\\'s' {files}",
    "echo \\' {files} \\\" a#'b' {files}",
    'echo "${HOME:-"}"}" {files}',
    "echo x <<< 'y'\necho {files}",
    "echo plain",
    "echo \\\\{files}",
]
REFUSED = [
    'bash -c "echo {files}"',
    "bash -c 'echo {files}'",
    "echo `cat {files}`",
    "cat <<END\n{files}\nEND",
    "cat <<'END'\n'\nEND\necho ' {files}'",
    "echo ${files}",
    "echo \\{files}",
    "echo $'a\\'{files}'",
    "echo \\$'a\\' '{files}'",
    'echo "$(cat "{files}")"',
    'echo "$(cat {files})"',
    'echo "${HOME:-"{files}"}"',
    "echo ${HOME:-{files}}",
    "echo it\\'s 'not {files}'",
    "# it's {files}",
]


@pytest.mark.parametrize("command", TAKEN)
def test_where_it_is_a_word_no_name_is_more_than_a_word(command: str, tmp_path: Path) -> None:
    assert files_problem(command) is None
    for name in HOSTILE:
        script = FILES.sub(lambda _: quote(name), command).replace("ruff", "echo")  # noqa: B023
        subprocess.run(["bash", "-c", script], cwd=tmp_path, check=False, capture_output=True)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", REFUSED)
def test_within_anything_it_is_refused(command: str) -> None:
    problem = files_problem(command)
    assert problem is not None
    assert "{files} must stand by itself" in problem


@pytest.mark.parametrize("odd", ["{files:*.{ts,tsx}}", "{files", "{files *.py}", "{filesystem}"])
def test_what_is_almost_one_is_refused_and_the_right_way_is_told(odd: str) -> None:
    problem = files_problem(f"lint {{files}} {odd}")
    assert problem is not None
    assert "is not understood: write {files}, or {files:*.ts,*.tsx}" in problem
