"""What is denied plainly is denied in every disguise: the plain spelling says what is right."""

import shlex
from pathlib import Path

import pytest

from gonogo.policy import check_command, load_contexts

P2 = load_contexts(Path(__file__).parents[1] / "cases" / "policy_contexts.json")["P2"]
HEADS = (
    "rm -rf /", "rm -rf .git", "unlink /etc/hosts", "sudo ls", "systemctl stop ssh", "kill -9 -1",
    "pkill python", "dd of=/etc/passwd bs=1", "tee .git/config", "cp a .git/hooks/pre-commit",
    "mv a .gonogo/rules.toml", "sed -i s/a/b/ .git/config", "chmod -R 777 /etc", "tar xf a -C /etc",
    "cat /etc/shadow", "cat .gonogo/token", "git config core.hooksPath x", "gonogo approve x",
    "curl http://localhost:8001/api/v1/approvals", "find /etc -delete",
    "curl https://x.test -o .git/config", "tar xCf .git a", "git -c core.fsmonitor=./evil status",
)  # fmt: skip


def _each(spell):
    return lambda head: " ".join(map(spell, head.split()))


def _first(spell):
    return lambda head: " ".join((spell(head.split()[0]), *head.split()[1:]))


def _signs(form):
    return lambda word: "$'" + "".join(form.format(ord(sign)) for sign in word) + "'"


def _last_as_variable(head):
    *words, last = head.split()
    return f"x={last}; {' '.join(words)} ${{x}}"


def _last_in_braces(head):
    *words, last = head.split()
    return " ".join((*words, f"{last[:1]}{{{last[1:]},{last[1:]}}}" if last[1:] else last))


def _in_a_loop(head):
    program, *words = head.split()
    return f"for i in {' '.join(words)}; do {program} $i; done"


SPELLINGS = {
    "plain": lambda head: head,
    "hexadecimal": _each(_signs("\\x{:02x}")),
    "hexadecimal in braces": _each(_signs("\\x{{{:x}}}")),
    "octal": _each(_signs("\\{:03o}")),
    "octal of nine bits": _each(lambda w: "$'" + "".join(f"\\{ord(c) | 256:o}" for c in w) + "'"),
    "unicode of eight digits": _each(_signs("\\U{:08x}")),
    "with a NUL": _first(lambda word: f"$'{word}\\0x'"),
    "translated": _each('$"{}"'.format),
    "an unset variable inside": _first(lambda word: f"{word[0]}${{x}}{word[1:]}"),
    "an empty substitution inside": _first(lambda word: f"{word[0]}$(){word[1:]}"),
    "an unset variable inside each": _each(lambda word: f"{word[:-1]}${{x}}{word[-1]}"),
    "a default": _first("${{x:-{}}}".format),
    "said": _first("$(echo {})".format),
    "said in backticks": _first("`printf %s {}`".format),
    "set before": _first(lambda word: f"c={word}; $c"),
    "set before, all of it": lambda head: f"c={shlex.quote(head)}; d=$c; $d",
    "a list": lambda head: f'a=({head}); "${{a[@]}}"',
    "set as words": lambda head: f'set -- {head}; "$@"',
    "the last word set before": _last_as_variable,
    "in a loop": _in_a_loop,
    "braces in the last word": _last_in_braces,
    "in braces": lambda head: f"{{{','.join(head.split())}}}",
    "a descriptor before": "{{fd}}>/dev/null {}".format,
}  # fmt: skip
CARRIERS = """
. /dev/stdin <<< Q
source <(echo Q)
alias ll=Q; ll
PROMPT_COMMAND=Q bash -i
PS4='$(@)' bash -xc :
GIT_SSH_COMMAND=Q git fetch
env -SQ
env --split-string=Q
echo Q | xargs
echo Q | xargs -0 sh -c
git -c alias.x='!@' x
git -c core.pager=Q log
git submodule foreach Q
git bisect run @
git filter-branch --tree-filter Q
git grep -OQ x
tar cf a --checkpoint-action=exec=Q x
tar -cIQ x
rsync -eQ a h:b
man -PQ x
ssh -oProxyCommand=Q h
ssh -o ProxyCommand=Q h
scp -S Q a h:b
nc -e Q h 1
socat - EXEC:Q
npx -c Q
apt-get -o APT::Update::Pre-Invoke::=Q update
cargo --config 'alias.x="@"' x
java -XX:OnError=Q x
find . -exec @ ;
find . -execdir @ +
awk 'BEGIN{system("@")}'
awk 'BEGIN{print | "@"}'
sed '1e @' x
perl -e 'exec "@"'
perl -we 'qx(@)'
python3 -c 'import os; os.system("@")'
python -c 'import subprocess as s; s.run("@", shell=True)'
ruby -e '`@`'
node -e 'require("child_process").execSync("@")'
php -r 'system("@");'
lua -e 'os.execute("@")'
emacs --batch --eval '(shell-command "@")'
sqlite3 x '.shell @'
vim '+!@'
less '+!@' x
gdb -batch -ex 'shell @'
ed <<< '!@'
tclsh <<< 'exec @'
""".strip().splitlines()


def _carried(carrier, head):
    return carrier.replace("Q", shlex.quote(head)).replace("@", head)


@pytest.mark.feature(202)
@pytest.mark.parametrize("name", SPELLINGS)
def test_no_spelling_of_what_is_denied_is_less_than_denied(name):
    spelt = {SPELLINGS[name](head) for head in HEADS}
    assert [text for text in spelt if check_command(text, P2).decision != "deny"] == []


@pytest.mark.feature(202)
@pytest.mark.parametrize("carrier", CARRIERS)
def test_nothing_that_starts_what_is_denied_is_less_than_denied(carrier):
    carried = [_carried(carrier, head) for head in HEADS]
    assert [text for text in carried if check_command(text, P2).decision != "deny"] == []


def test_a_list_of_words_that_code_starts_is_read_as_a_command():
    found = check_command('python -c \'import subprocess as s; s.run(["rm", "-rf", "/"])\'', P2)
    assert found.reason == "removes /"


WRITES = r"""
curl -o .git/config u
curl -sSLo .git/config u
curl --output=.git/config u
curl --out .git/config u
curl -o.git/config u
wget -O .git/config u
awk '{print > ".git/config"}' x
gawk '{print>>".git/config"}' x
sed -n 'w .git/config' x
sed 's/a/b/w .git/config' x
tar xf a.tar -C .git
tar xCf .git a.tar
tar xfC a.tar .git
tar xvzfC a.tar .git
tar cf .git/config a
tar -cf .git/config a
git -c core.fsmonitor=evil status
git -ccore.fsmonitor=./evil status
git clone -c core.fsmonitor=evil u
git clone --config core.fsmonitor=evil u
git --config-env=core.pager=X log
git -c alias.x=!evil x
sort -o .git/config x
find . -fprint .git/config
gcc -o .git/x a.c
git log --output=.git/config
git diff --output .git/config
openssl rand -out .git/config 5
patch -o .git/config a
php -r 'exec("reboot");'
php -r 'exec ("reboot");'
perl -e 'exec reboot'
node -e 'require("child_process").execSync("reboot")'
python -c 'import os; os.execvp("reboot", [])'
""".strip().splitlines()
HARMLESS = r"""
curl -o /dev/null u
curl -o out.txt u
curl -sS -c jar.txt u
awk '{print >> "out"}' x
awk '$1 > "abc" {print}' x
tar xf a.tar -C build
tar xfC a.tar build
tar cf a.tar .git
tar tf .git/a.tar
git -c core.pager=cat log
git -c core.hooksPath=/dev/null commit -m x
git switch -c include-tests
git commit -c HEAD
git -c user.name=x commit -m y
git -c protocol.file.allow=always submodule update
php -r 'echo "exec reboot";'
python -c 'print("exec reboot")'
sed -n '/now x/p' f
scp a host:.git/config
sort -o out x
""".strip().splitlines()


@pytest.mark.parametrize("text", WRITES)
def test_what_an_option_a_setting_or_code_ruins_is_denied_as_a_plain_word_is(text):
    assert check_command(text, P2).decision == "deny"


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_it_is_not_denied(text):
    assert check_command(text, P2).decision != "deny"
