"""The policy holds its cases: nothing is allowed that should not be, and ordinary work flows."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from gonogo.domain.errors import InvalidMessage
from gonogo.policy import check_command, load_contexts, read_contexts

CASES = Path(__file__).parents[1] / "cases"
CONTEXTS = load_contexts(CASES / "policy_contexts.json")
LINKS = frozenset({"link-to-outside"})
"""What the fixture of a case has put on the disk; names alone do not tell."""


def _text(written) -> str:
    match written:
        case {"$concat": parts}:
            return "".join(map(_text, parts))
        case {"$repeat": [part, times]}:
            return part * times
        case _:
            return written


def _load():
    lines = (CASES / "commands.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _verdict(case):
    context = CONTEXTS[case["policy_context"]]
    conditions = replace(context.conditions, outside=LINKS.__contains__)
    return check_command(_text(case["cmd"]), replace(context, conditions=conditions))


@pytest.mark.parametrize("case", _load(), ids=lambda case: case["id"])
def test_a_command_gets_the_verdict_of_its_case(case):
    found = _verdict(case)
    assert found.decision in (case["expect"], *case["also_ok"]), found.reason
    assert (found.run_as is not None) == (found.decision == "allow")


def test_what_must_be_allowed_is_allowed():
    must = [c for c in _load() if c["expect"] == "allow" and "ask" not in c["also_ok"]]
    allowed = [c for c in must if _verdict(c).decision == "allow"]
    assert len(allowed) >= 0.95 * len(must)


P1_ALLOWS = """
cat a - /dev/null
ls -lah src
head -20 README.md
tail -n +5 x.log
grep -rnw --include='*.ts' foo .
grep -e one -e two src/a.py
rg -n 'fn main' src
rg --files -g '*.py'
find . -type f -name '*.py' -not -path './node_modules/*'
stat -c '%s' README.md
date -u +%FT%TZ
sort -u names.txt | uniq -c
cut -d',' -f 1,2 a.csv
diff -ru a b
sed -n '/def main/,/return/p' a.py
sed -n -e 1p -e '$p' a.py
jq '.dependencies | keys' package.json
jq --arg a b '.x == $a' x.json
git status -sb
git log --oneline --graph --all
git log -n 10 --stat
git log main..HEAD -- src
git diff main...feature/x
git show abc123:src/app.py
git branch --contains HEAD
git branch --list 'a/b'
git blame -L 1,10 src/a.py
git --no-pager log -3
echo '$(id)'
cat a\\ b.txt
cat "a \\"b\\".txt"
ls src/[a-c]?.py
ls -- -x
cat /ws/src/a.py
ls &>/dev/null
grep -q foo a.txt && echo yes || echo no; pwd
! ls >| /dev/null
cat a </dev/null
tail +5 x.log
grep "a$" a.txt
grep -E "^a$|^b$" a.txt
sed -n '/^[a-z]/Ip' a.py
sed -n '1~2p;10q' a.py
sed -n '5,10!p' a.py
jq '.env, .a.input' x.json
jq '[limit(3; .[])]' x.json
git blame -L '/def f/,+9' src/a.py
git show 'HEAD@{10:00:00}:src/a.py'
"""


@pytest.mark.parametrize("command", P1_ALLOWS.strip().splitlines())
def test_ordinary_reading_needs_no_question(command):
    found = check_command(command, CONTEXTS["P1"])
    assert found.decision == "allow", found.reason


P1_ASKS = """
cat sec*/x
cat ~/x
cat //etc/x
cat config/*
cat *
cat src/../x
cat ''
grep x .en[v]
grep x src/*.p?m
grep src/* x
uniq src/*.txt
git show HEAD:.env
git show 'HEAD@{10:00}:id_rsa'
git show 'HEAD^{/fix: x}:secrets/db.txt'
cat .gi*/config
cat .git/con?ig
cat .git/conf?g.bak
cat \\#*
tail +1f x
tail +f
tail +[0-9]* x
sed -n '1q;w x' f
sed -n '/[/]/p;w x/p' f
jq '..|env' x
jq '1.env' x
jq 'def f: f; f' x
jq 'recurse(.)' x
git diff --no-index /etc/passwd a
git log --format=%G?
git log --pretty='%G?'
git log -L :main:/etc/passwd
git log -L 1,2:../x
git log -L nothing:a:b
git show :/text
git diff ..env
git --literal-pathspecs status
cat a:b.pem
echo -*
git branch new
git branch -m a b
git stash
git -C /tmp status
git --git-dir=/tmp/x status
git rev-parse --git-path hooks
git
git -P
sed 5p f
sed -n 'p;w x' f
sed -n f -e
find . -newermt x
find . -exec
jq 'input' x
jq --arg a
date 010203042020
tail -5f x
ls --all=yes
ls -w
head -n src/* x
ls ;; ls
ls | ! cat
ls && # nothing
! ! ls
!
2>/dev/null ls
ls >/dev/null src
ls "$_"
ls "$-$"
ls $'a'
ls a{b,c}
ls x=~/y
ls [!
ls src/*/../x
*/ls
"""


@pytest.mark.parametrize("command", P1_ASKS.strip().splitlines())
def test_what_is_not_known_to_be_harmless_asks(command):
    assert check_command(command, CONTEXTS["P1"]).decision == "ask"


DENIED = """
rm -r -f /
rm -rf ../*
rm -rf ~/*
rm -rf "${HOME:?}"
rm -rf /usr/*
rm -rf $X/
rm -rf "$X"/*
rm -rf .git
rm -rf .
rm -rf /ws
rmdir /ws/.git/hooks
sudo rm x
bash -c 'rm -rf /'
bash <<< 'rm -rf /'
trap 'rm -rf /' EXIT
env -S 'rm -rf /'
rm -rf ~root
rm -rf "$PWD"
{rm,-rf,/}
rm -rf {x,/}
rm -rf /e*
rm -rf /?tc
rm -rf /*/*
rm -rf $(pwd)/*
sh -c "sh -c 'rm -rf ~'"
eval rm -rf /
echo 'rm -rf /' | sh
nohup rm -rf / &
$'\\x72m' -rf /
$'\\162m' -rf /
$'\\u0072m' -rf /
$'r\\m' -rf /
rm${IFS}-rf${IFS}/
(rm -rf /)
if true; then rm -rf /; fi
rm -rf / "unterminated
find / -type f -delete
find ~ -exec rm {} +
dd if=/dev/zero of=/dev/sda
tee /dev/sda
cat /dev/nvme0n1
mkfs.ext4 /dev/sda1
:(){ :|:& };:
bomb() { bomb | bomb & }; bomb
chmod -R 777 /
chown -R me /etc
mv / x
cp a .git/hooks/pre-commit
sed -i s/a/b/ .gonogo/rules.toml
echo x > /dev/sda
echo x > .git/config
echo x > ~/.profile
kill -s KILL -1
kill -- -1
kill 1
pkill -f x
crontab -e
strace -p 1
cat ~/.aws/credentials
git config --global user.name x
git config core.fsmonitor ./x
curl http://localhost:8001/api/v1/approvals
curl --unix-socket /run/x http://y
gonogo approve x
python -m gonogo approve x
cat .gonogo/token
cat $GONOGO_HOME/token
sqlite3 x.db 'update approvals set a=1'
"""


@pytest.mark.parametrize("command", DENIED.strip().splitlines())
def test_ruin_and_tampering_are_denied_in_every_disguise(command):
    for context in ("P0", "P1", "P4", "P8"):
        assert check_command(command, CONTEXTS[context]).decision == "deny"


HARMLESS = """
find /ws/src /ws/a -delete
rm -rf build
rm -rf $PWD/build
rm notes.txt
rm -rf $X
rm -rf $X/a
rm $X/*.o
mv $X/* b
kill 1234
kill -9 1234
kill -l
find . -name x -exec rm {} +
chmod +x run.sh
mv a b
git config user.email a@b
git config --get core.hooksPath
git config --global --get user.name
sqlite3 app.db .tables
curl http://localhost:3000/health
strace ls
find / -exec ls {} +
ls > out.txt
wget -q
"""


@pytest.mark.parametrize("command", HARMLESS.strip().splitlines())
def test_what_a_person_may_decide_is_left_to_a_person(command):
    assert check_command(command, CONTEXTS["P1"]).decision == "ask"


@pytest.mark.parametrize(
    "command",
    ["echo 'rm -rf /'", 'grep -rn "rm -rf /" docs', "grep -n '/dev/sda1' README.md",
     "grep 'rm -rf /' watch", "echo '{rm,-rf,/}'"],
)  # fmt: skip
def test_dangerous_words_as_data_are_data(command):
    assert check_command(command, CONTEXTS["P1"]).decision == "allow"


@pytest.mark.parametrize("program", ["echo", "printf"])
def test_what_only_prints_names_may_name_keys(program):
    assert check_command(f"{program} /home/u/.ssh/id_rsa", CONTEXTS["P1"]).decision != "deny"
    assert check_command("cat /home/u/.ssh/id_rsa", CONTEXTS["P1"]).decision == "deny"


@pytest.mark.parametrize(
    "command",
    ["rm x", "echo $(rm x)", "env rm x", "ls | xargs rm", "time rm x", "(rm x)", "/bin/rm x",
     "f() { rm x; }; f", "for i in a; do rm $i; done", "cat <(rm x)", "bash -c 'rm x'",
     "declare x; rm x", "ls ( ; rm x", "cat <<E\n$(rm x)\nE", "sh <<'E'\nrm x\nE",
     "bash <<< 'rm x'", "{rm,x}", "watch 'rm x'"],
)  # fmt: skip
def test_a_deny_rule_sees_through_what_stands_around(command):
    assert check_command(command, CONTEXTS["P8"]).decision == "deny"


@pytest.mark.unmeasured
def test_a_deny_rule_is_found_in_a_text_too_long_to_parse():
    command = "true;" * 15_000 + "rm x"
    assert check_command(command, CONTEXTS["P8"]).decision == "deny"
    assert check_command(command, CONTEXTS["P1"]).decision == "ask"


def test_shells_within_shells_are_looked_into_only_so_deep():
    nested = "bash -c bash\\ -c\\ bash\\\\\\ -c\\\\\\ 'bash -c ls'"
    assert check_command(nested, CONTEXTS["P1"]).decision == "ask"


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("ls " + "{" * 2_700 + "," * 2_700, "allow"),
        ("cat src/" + "a*" * 2_000, "ask"),
        ("cat src/" + "*a" * 60 + ".py", "allow"),
        ("sed -n '" + " " * 8_000 + "' a", "ask"),
        ("git log -L " + "+" * 8_000, "allow"),
        ("git show " + "a:" * 4_000, "ask"),
        ("find . " + "-exec " * 40_000, "ask"),
        ("find . " + "-exec ls + " * 30 + "-exec rm -rf / +", "deny"),
    ],
    ids=lambda value: value[:12],
)
def test_a_text_that_is_tedious_to_read_is_read_in_good_time(command, decision):
    assert check_command(command, CONTEXTS["P1"]).decision == decision


def test_a_text_longer_than_any_command_is_denied():
    assert check_command("a" * 250_001, CONTEXTS["P1"]).decision == "deny"


@pytest.mark.parametrize("odd", ["\x00", "\r", "\u202e", "\u200b", "\u2028", "\u3164", "\ue000"])
def test_characters_that_mislead_a_reader_are_denied(odd):
    assert check_command(f"ls {odd}x", CONTEXTS["P1"]).decision == "deny"


@pytest.mark.parametrize("odd", ["\u00a0", "\u3000", "\U000e0fff"])
def test_characters_of_doubtful_meaning_ask(odd):
    assert check_command(f"ls {odd}x", CONTEXTS["P1"]).decision == "ask"


@pytest.mark.parametrize(
    ("context", "command", "decision"),
    [
        ("P2", "pytest -vv -ra --maxfail=1 tests/test_a.py::test_b[x]", "allow"),
        ("P2", "pytest -vv -ra --maxfail=1 'tests/test_a.py::test_b[x]'", "allow"),
        ("P2", "pytest -q 2>&1 | tail -n 20", "allow"),
        ("P2", "pytest @args", "ask"),
        ("P2", "pytest -p no:cacheprovider -W error", "allow"),
        ("P2", "pytest -p no", "ask"),
        ("P2", "pytest -xp evil", "ask"),
        ("P2", "pytest -W error::evil.Plugin", "ask"),
        ("P2", "npm test -- --ci --coverage", "allow"),
        ("P2", "npm test -- --coverage=x", "ask"),
        ("P2", "npm test --ci", "ask"),
        ("P2", "npm test -- --watch", "ask"),
        ("P2", "npm test -- src/a.test.js", "allow"),
        ("P2", "python3 -m pytest", "ask"),
        ("P4", "npm run lint", "allow"),
        ("P4", "npm run build --script-shell=./evil", "ask"),
        ("P4", "git commit -m x", "ask"),
        ("P4", "git --no-pager push", "deny"),
        ("P4", "git -c a.b=c push x", "deny"),
        ("P4", "git --attr-source x push", "deny"),
        ("P9", "git status", "allow"),
        ("P9", "mypy src", "ask"),
        ("P10", "tar tf a.tar", "allow"),
        ("P10", "tar tf host:a.tar", "ask"),
        ("P10", "tar xf a.tar", "ask"),
        ("P10", "tar -v tf a.tar", "ask"),
        ("P10", "tar -tf a.tar b", "allow"),
        ("P10", "tar tf a*", "ask"),
        ("P10", "tar -x -f a.tar", "ask"),
    ],
)
def test_project_commands_follow_their_context(context, command, decision):
    assert check_command(command, CONTEXTS[context]).decision == decision


def test_rules_too_broad_for_a_context_are_left_out_and_named():
    refused = " ".join(CONTEXTS["P4"].refused)
    assert "bash *" in refused
    assert "python *" in refused


def test_a_context_can_look_at_the_disk():
    contexts = load_contexts(CASES / "policy_contexts.json", LINKS.__contains__)
    assert check_command("cat link-to-outside", contexts["P1"]).decision == "ask"
    assert check_command("cat other", contexts["P1"]).decision == "allow"


@pytest.mark.parametrize(
    "command",
    ["diff --from-file=link-to-outside a", "grep -flink-to-outside a", "cat link*.py", "wc l*"],
)
def test_a_link_is_found_behind_an_option_and_a_pattern(command):
    context = CONTEXTS["P1"]
    names = {"link*.py": ["link.py", "link-to-outside"], "l*": ["link-to-outside"]}
    look = replace(
        context.conditions, outside=LINKS.__contains__, matching=lambda pattern: names[pattern]
    )
    assert check_command(command, replace(context, conditions=look)).decision == "ask"
    assert check_command(command, context).decision == "allow"


@pytest.mark.parametrize(
    "command",
    ["cat ./link-to-outside", "ls link-to-outside/", "cat /ws/link-to-outside",
     "cat /ws/./link-to-outside", "ls link-to-outside/a/b", "grep x -- link-to-outside"],
)  # fmt: skip
def test_a_link_is_found_in_each_spelling_of_its_path(command):
    context = CONTEXTS["P1"]
    look = replace(context.conditions, outside=LINKS.__contains__)
    assert check_command(command, replace(context, conditions=look)).decision == "ask"


def test_a_link_is_found_before_the_name_of_a_test():
    context = CONTEXTS["P2"]
    look = replace(context.conditions, outside=LINKS.__contains__)
    found = check_command("pytest link-to-outside::test_x", replace(context, conditions=look))
    assert found.rule == "builtin:outside"


HERE = frozenset({"src", "src/a.py", "names.txt", "a", ".", "/ws"})
DATA = """
grep -rn "/api/v1" src
grep -c '' src/a.py
grep -e ../lib src/a.py
sed -n '/def main/,/return/p' src/a.py
cut -d/ -f2 names.txt
tr '/' '_'
sort -t / names.txt
echo /usr/bin ../x
find . -path '/x' -newer a
git log --grep /x --format=%h/%s
jq -n --arg a /etc '$a'
rg -g '/src/*.py' //
git log -L '/a/,/b/:src/a.py'
ls /ws /ws/src/
cat a /dev/null
"""


@pytest.mark.parametrize("command", DATA.strip().splitlines())
def test_a_word_that_no_program_opens_is_not_looked_for_on_the_disk(command):
    context = CONTEXTS["P1"]
    look = replace(context.conditions, outside=lambda path: path not in HERE)
    found = check_command(command, replace(context, conditions=look))
    assert found.decision == "allow", found.reason


@pytest.mark.parametrize(
    ("command", "pattern"),
    [("wc src/[^a]*", "src/[!a]*"), ("wc 'a*'?", "a[*]?"), ("wc a\\[b*", "a[[]b*")],
)
def test_a_pattern_is_looked_for_as_the_shell_means_it(command, pattern):
    asked = []
    context = CONTEXTS["P1"]
    look = replace(context.conditions, matching=lambda pattern: asked.append(pattern) or ())
    assert check_command(command, replace(context, conditions=look)).decision == "allow"
    assert asked == [pattern]


def test_a_context_may_have_ask_rules():
    context = read_contexts({"A": {"allow": ["ls"], "ask": ["ls -l"]}})["A"]
    assert check_command("ls", context).decision == "allow"
    assert check_command("ls -l", context).rule == "user:2"


@pytest.mark.parametrize(
    "text", ['{"A": {"extends": "B"}}', '{"A": {"extends": "A"}}', "[" * 50_000]
)
def test_a_broken_file_of_contexts_says_so(tmp_path, text):
    path = tmp_path / "contexts.json"
    path.write_text(text)
    with pytest.raises(InvalidMessage, match=r"contexts\.json"):
        load_contexts(path)
