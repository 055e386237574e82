"""What commands say when they are given something wrong, word for word, in both languages.

`GONOGO_WRITE_GOLDEN=1` writes it anew after a change that is meant.
"""

import re
import shlex
from pathlib import Path

import pytest

from fakes.golden import kept

GOLDEN = Path(__file__).parent / "golden"
WRONG = """
plan
plans show
plans list --limit 0
plans list --limit x
plans list --foo
plans list --status
plans show none
plans edit none --yes
plans start none
plans diff none
plans wait none
plans comment none ""
plans replan none --reason " "
steer none a ""
run
run a b
run -C missing x
run "Do it"
run --plan missing.yaml
run "Do it" --plan project/rules.toml
run --plan project/rules.toml
attach
attach none
rollback a --to latest --subtask b
approvals decide a
approvals decide a approve --for-session --for-plan
approvals decide a reject --for-session
approvals decide a edit
approvals decide hold --group a
approvals decide none approve
approvals link none
audit show --after 3
audit verify --export x --session s
audit verify --anchor nonsense
audit verify --export missing
audit export -o missing/log
audit export --session none -o out
place release /none
plans show 'a b'
audit prune --before never --export out
analytics --since never
changes
changes --session s --subtask a
changes none
policy check
policy check --rules missing -- ls
policy check --rules project/wrong.toml
policy explain --agent nobody ls
policy replay missing
policy list none
tool run read_file []
tool run read_file {}
tool run read_file '{"path": "../x"}'
tool run fly {}
tool accept fly
sessions show none
sessions delete none
sessions delete none --yes
serve --port 99999
serve --host 0.0.0.0 --no-auth
token create anna
token create --role boss --name x
token revoke none
rollback none
checkpoints list none
checkpoints create none
acp -C missing
"""


@pytest.mark.parametrize("locale", ["en", "ru"])
def test_what_is_wrong_is_said_with_what_to_do_next(
    gonogo, home: Path, tmp_path: Path, locale: str
):
    project = tmp_path / "project"
    project.mkdir()
    (project / "rules.toml").write_text('[[rule]]\ncommand = "ls"\ndecision = "allow"\n')
    (project / "wrong.toml").write_text('[[rule]]\ncommand = "ls"\n')
    told = list[str]()
    for line in WRONG.strip().splitlines():
        done = gonogo(*shlex.split(line), env={"GONOGO_LOCALE": locale})
        said = (done.stdout + done.stderr).replace(str(home), "HOME").replace(str(tmp_path), "TMP")
        said = re.sub(r"\bs_[0-9a-f]{32}", "<s>", said)
        told.append(f"$ gonogo {line}\n{said}= {done.returncode}\n")
    ended = gonogo("status", env={"GONOGO_LOCALE": locale, "GONOGO_PORT": "x"})
    told.append(f"$ GONOGO_PORT=x gonogo status\n{ended.stderr}= {ended.returncode}\n")
    found = "\n".join(told)
    assert found == kept(GOLDEN / f"errors.{locale}.txt", found)
    assert "Traceback" not in found
