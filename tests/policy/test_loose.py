"""What a command hides is looked for: in nested shells, behind wrappers, in odd ways of writing.

Only for denying. What is merely not understood asks, however odd it looks.
"""

import shlex
from pathlib import Path

import pytest
from msgspec.structs import replace

from gonogo.policy import check_command, load_contexts

P1 = load_contexts(Path(__file__).parents[1] / "cases" / "policy_contexts.json")["P1"]
AT_HOME = replace(P1, conditions=replace(P1.conditions, home="/home/u/.gonogo"))
KILLS = "ends every process, or the one that this environment depends on"
OUR_FILES = "an agent may not read or change gonogo's own files"
OUR_API = "an agent may not call gonogo's own API"
OUR_SOCKETS = "an agent may not connect to local sockets"
GIT_ELSEWHERE = "changes git's configuration outside this repository"


def _nested(command: str, times: int) -> str:
    for _ in range(times):
        command = f"sh -c {shlex.quote(command)}"
    return command


HIDDEN = [
    # Of several places each is looked at.
    ("echo x > /etc/hosts; sh -c 'ls -l'", "writes to the system file /etc/hosts"),
    ("echo x > /etc/hosts; ls > out", "writes to the system file /etc/hosts"),
    ("sh -c 'rm -rf /'; sh -c 'ls -l'", "removes /"),
    ("ls | ls | ls\nrm -rf / && ls", "removes /"),
    # What a shell is given, or reads.
    ("sh -c 'rm -rf /'", "removes /"),
    ("/bin/bash -c reboot", "reboot changes the host"),
    ("bash x 'rm -rf /'", "removes /"),
    ("eval rm -rf /", "removes /"),
    ("echo 'rm -rf /' | sh", "removes /"),
    ("printf 'rm -rf /' | bash", "removes /"),
    (_nested("rm -rf /", 3), "removes /"),
    # What others start.
    ("env git config --global a b", GIT_ELSEWHERE),
    ("nice kill 1", KILLS),
    ("find . -exec kill 1 ';'", KILLS),
    ("find . -exec /sbin/reboot", "reboot changes the host"),
    ("chronic rm -rf /", "removes /"),
    ("hyperfine 'rm -rf /'", "removes /"),
    ("taskset 1 bash -c 'rm -rf /'", "removes /"),
    ("/opt/bin/Elvish -c 'rm -rf /'", "removes /"),
    ("conda run -n x rm -rf /", "removes /"),
    ("direnv exec . rm -rf /", "removes /"),
    ("docker run --privileged i rm -rf /", "removes /"),
    ("tmux new 'rm -rf /'", "removes /"),
    ("find . -okdir /sbin/reboot ';'", "reboot changes the host"),
    ("tar xf a --to-command='rm -rf /'", "removes /"),
    ("tar xf a --to-c 'rm -rf /'", "removes /"),
    ("sort --comp='rm -rf /' a", "removes /"),
    ("rg --pre reboot x", "reboot changes the host"),
    # Options that come before what git is to do.
    ("git --no-pager config --global a b", GIT_ELSEWHERE),
    ("git -C x config --global a b", GIT_ELSEWHERE),
    ("git -C x --git-dir y -P config core.pager z", "makes git run 'z' automatically"),
    # Ways of writing a word.
    ("/bin/rm/ -rf /", "removes /"),
    ("r\\m -rf /", "removes /"),
    ("r\\\nm -rf /", "removes /"),
    ("sh -c 'r\\\nm -rf /'", "removes /"),
    ("# ls \\\nrm -rf /", "removes /"),
    ("ls \\\n; rm \\\n -rf \\\n /", "removes /"),
    ("rm$IFS-rf$IFS/", "removes /"),
    ("rm$IFS$9-rf${IFS}/", "removes /"),
    ("rm${IFS:0:1}-rf${IFS%x}/", "removes /"),
    ("$'rm' -rf /", "removes /"),
    ("$'\\x72\\x6d' -rf /", "removes /"),
    ("$'\\162\\155' -rf /", "removes /"),
    ("$'\\u0072\\u006d' -rf /", "removes /"),
    ("rm -rf $'/etc/\\'a'", "removes /etc/'a"),
    ("rm -rf $HOME", "removes ~"),
    ("rm -rf $X/", "removes everything if the variable is not set"),
    ("rm -rf ${X}/*", "removes everything if the variable is not set"),
    ("rm -rf `x`/", "removes everything if the variable is not set"),
    ("cat $GONOGO_HOME/token", OUR_FILES),
    ("cat ${GONOGO_HOME:-x}/token", OUR_FILES),
    # What is no plain command.
    ("export GONOGO_TOKEN=x", OUR_FILES),
    ("[[ -f ~/.ssh/id_rsa ]]", "touches the keys in ~/.ssh/id_rsa"),
    # Every file that a program writes, wherever the word stands.
    ("tee /etc/passwd x", "writes to the protected /etc/passwd"),
    ("touch .git/config x", "writes to the protected .git/config"),
    ("sed -i s/a/b/ .git/config x", "writes to the protected .git/config"),
    ("perl -pi -e s/a/b/ /etc/passwd x", "writes to the protected /etc/passwd"),
    ("dd of=/etc/passwd bs=1", "writes to the protected /etc/passwd"),
    ("mv .git x", "moves .git"),
    ("scp host:a .git/config", "writes to the protected .git/config"),
    ("sftp host:a .bashrc", "writes to the protected .bashrc"),
    # What is taken out of an archive, wherever its name stands.
    ("tar xf a .git/config", "writes to the protected .git/config"),
    ("tar -x -f a src /.git/config", "writes to the protected .git/config"),
    ("tar xfC a out .bashrc", "writes to the protected .bashrc"),
    ("bsdtar --extract --file=a x/.git/config", "writes to the protected x/.git/config"),
    ("unzip a.zip .git/config", "writes to the protected .git/config"),
    ("unzip -o a.zip src .git/config", "writes to the protected .git/config"),
    ("tar -x --overwrite .git/config -f a.tar", "writes to the protected .git/config"),
    ("tar xf a --no-recursion .git/config", "writes to the protected .git/config"),
    ("tar --ge -f a .git/config", "writes to the protected .git/config"),
    ("tar xf a .git/config -- -O", "writes to the protected .git/config"),
    ("tar -x -fO .git/config", "writes to the protected .git/config"),
    ("tar xf a --one-top-level=.git", "writes to the protected .git"),
    ("unzip -Ptop a.zip .git/config", "writes to the protected .git/config"),
    ("unzip a.zip .git/config -p", "writes to the protected .git/config"),
    ("7z x a.7z .git/config", "writes to the protected .git/config"),
    ("7zz e a.7z -o.git/hooks", "writes to the protected .git/hooks"),
    ("unrar x a.rar .git/", "writes to the protected .git/"),
    ("ar x a.a .bashrc", "writes to the protected .bashrc"),
    ("jar xf a.jar .git/config", "writes to the protected .git/config"),
    ("cpio -id .git/config", "writes to the protected .git/config"),
    ("pax -r -f a .git/config", "writes to the protected .git/config"),
    ("python3 -m zipfile -e a.zip .git", "writes to the protected .git"),
    # What keeps its name in the folder that it is put into.
    ("cp x/.bashrc .", "writes to the protected ./.bashrc"),
    ("cp -r /tmp/.git ./", "writes to the protected ./.git"),
    ("cp a x/.bashrc sub", "writes to the protected sub/.bashrc"),
    ("scp host:.bashrc .", "writes to the protected ./.bashrc"),
    ("rsync -a --delete host:x/.git .", "writes to the protected ./.git"),
    ("rsync a --delete .git/", "writes to the protected .git/"),
    ("scp a localhost:/etc/passwd", "writes to the protected /etc/passwd"),
    # What a second word names.
    ("uniq x .git/config", "writes to the protected .git/config"),
    ("xxd -r x .git/config", "writes to the protected .git/config"),
    ("split -b 1 x .git/config", "writes to the protected .git/config"),
    ("patch -p0 .bashrc", "writes to the protected .bashrc"),
    ("patch -d .git -i x", "writes to the protected .git"),
    # What is made, packed, unpacked or edited where it lies.
    ("mkdir -p x .git/hooks", "writes to the protected .git/hooks"),
    ("gzip -d .git/x.gz", "writes to the protected .git/x.gz"),
    ("xz .git/config", "writes to the protected .git/config"),
    ("ed -s .git/config", "writes to the protected .git/config"),
    ("yq -i .x=1 .git/config", "writes to the protected .git/config"),
    ("gawk -i inplace 1 .git/config", "writes to the protected .git/config"),
    ("chmod +x .git/hooks/pre-commit", "changes the mode or owner of .git/hooks/pre-commit"),
    ("csplit --prefix=.git/x a 1", "writes to the protected .git/x"),
    ("cpio -pdm .git/hooks", "writes to the protected .git/hooks"),
    ("tar xf a --xform=s,^,.git/,", "writes to the protected .git/"),
    ("tar xf a --transform s:x:/.git/config:", "writes to the protected .git/config"),
    # What an option of any program calls its output.
    ("go build -o .git/hooks/pre-commit .", "writes to the protected .git/hooks/pre-commit"),
    ("rustc x.rs --out-dir .git", "writes to the protected .git"),
    ("tsc --outFile=.vscode/x", "writes to the protected .vscode/x"),
    ("strip -o.git/hooks/x a", "writes to the protected .git/hooks/x"),
    ("xargs tree -o .git/config", "writes to the protected .git/config"),
    # Modes and owners that stand in an option.
    ("chmod -x /etc", "changes the mode or owner of /etc"),
    ("setfacl -b /etc", "changes the mode or owner of /etc"),
    ("chattr -i /etc/passwd", "changes the mode or owner of /etc/passwd"),
    # Values that are glued to their options, or stand behind other letters or half a name.
    ("cp -rt /etc a", "writes to the protected /etc"),
    ("cp --target=/etc a", "writes to the protected /etc"),
    ("tar -xf a -C/etc", "writes to the protected /etc"),
    ("unzip a -d.git/hooks", "writes to the protected .git/hooks"),
    ("git config --file=x a b", GIT_ELSEWHERE),
    ("git config -fx a b", GIT_ELSEWHERE),
    ("git config --glob a b", GIT_ELSEWHERE),
    ("git config set --type path core.pager z", "makes git run 'path' automatically"),
    ("nsenter -t1 sh", "nsenter attaches to another process"),
    ("strace --att=1", "strace attaches to another process"),
    ("gdb -ex 'attach 1'", "gdb attaches to another process"),
    # A path in other words.
    ("cat /dev//sda", "touches the raw device /dev//sda"),
    ("cat /dev/./sda", "touches the raw device /dev/./sda"),
    ("cat /dev/sd?", "touches the raw device /dev/sd?"),
    ("mv x /dev/md0", "writes to the device /dev/md0"),
    ("flock f -c'rm -rf /'", "removes /"),
    ("cat ../.ssh/id_rsa", "touches the keys in ../.ssh/id_rsa"),
    ("cat /home/u/.s?h/id_rsa", "touches the keys in /home/u/.ssh/id_rsa"),
    ("curl file:///home/u/.ssh/id_rsa", "touches the keys in file:///home/u/.ssh/id_rsa"),
    ("tee ../etc/passwd", "writes to the protected ../etc/passwd"),
    ("find .git -delete", "deletes files below .git"),
    ("cat /home/u/x/../.gonog?/y", OUR_FILES),
    ("grep -n 3 . .gonogo/token", OUR_FILES),
    ("echo x > .g?t/config", "writes to the protected .git/config"),
    ("/bin/r? -rf /", "removes /"),
    # What is meant from another folder.
    ("cd / && rm -rf etc", "removes /etc"),
    ("cd /etc; tee passwd", "writes to the protected /etc/passwd"),
    ("cd .git && rm -rf hooks", "removes the protected .git/hooks"),
    ("cd .git/hooks && echo x > pre-commit", "writes to the protected .git/hooks/pre-commit"),
    ("env -C / rm -rf etc", "removes /etc"),
    # gonogo by its file, and its API in other words.
    ("python .venv/bin/gonogo approve", "an agent may not control gonogo"),
    ("python3.12 -c 'get(\"http://localhost:8001/api/v1\")'", OUR_API),
    ("curl http://%6cocalhost:8001/%61pi/v1", OUR_API),
    ("nc -U /run/x", OUR_SOCKETS),
    ("curl --unix-soc /run/x http://y", OUR_SOCKETS),
    ("socat - UNIX-CONNECT:/run/x", OUR_SOCKETS),
    ("ls 'a\ncat .gonogo/token", OUR_FILES),
]  # fmt: skip


@pytest.mark.parametrize(("command", "reason"), HIDDEN)
def test_what_a_command_hides_is_denied_for_what_it_is(command, reason):
    found = check_command(command, AT_HOME)
    assert (found.decision, found.rule, found.reason) == ("deny", "builtin:never", reason)


HARMLESS = [
    "foo config --global a b",
    "cat 'rm -rf /' | sh",
    "kill 1\\ ",
    "rm -r \\X/",
    "foo a \\\n reboot",
    "vagrant halt",
    # What stands before the option is not what is started by it.
    "find 1 -exec kill 5 ';'",
    "podman init c",
    "tmux at",
    "uv init",
    "pnpm init",
    "yarn at",
    "timeout 5 grep 'rm -rf /' docs",
    "cat --to-c 'rm -rf /'",
    "git config user.name rm; git -C x status",
    "rm -rf .[a-f]*",
    "cp -d /usr/share/x .",
    "mv build/x ./",
    "rsync -t /etc/hosts .",
    "tar --xz -cf x.txz -C /etc hosts",
    "tar",
    "tar xf x.tar -C build",
    "tar xf x.tar src etc/passwd /etc/passwd",
    "tar xzf /usr/share/x.tgz src",
    "tar xf .git/x.tar",
    "tar -x --file .git/x.tar",
    "tar -x --exclude .git -f x.tar",
    "tar xOf x.tar .git/config",
    "tar tf x.tar .git/config --sort=name",
    "unzip .git/x.zip",
    "unzip x.zip -d out -x .git/config",
    "unzip -p x.zip .git/config",
    "scp a host:.git/config",
    "scp .git/config b",
    "cp .git/config .",
    "cp -r .git /tmp/x/",
    "rsync -a .git/ out/",
    "rsync -a --exclude .git . out/",
    "rsync -a --exclude .git . host:/srv",
    "rsync -a .git host:x/",
    "uniq .git/config",
    "xxd .git/config",
    "7z l a.7z .git/config",
    "7z a x.7z .git",
    "ar t a.a .bashrc",
    "cpio -o .git/config",
    "gunzip -c .git/x.gz",
    "xz --list .git/x.xz",
    "zstd .git/x -o copy.zst",
    "tar tf a --transform s,^,.git/,",
    "tar xf a --transform s,.git,x,",
    "gawk -i lib.awk 1 .git/config",
    "chmod +x .github/run.sh",
    "pandoc .git/x -o /srv/x",
    "xargs grep -o .git",
    "python3 -m zipfile -l .git/x.zip",
    "tar -x --exclude-from .git/x -f x.tar",
    "chmod 644 --reference x",
    "find -L . -delete",
    "fuser 8001/tcp",
    "kill 10",
    "strace -f ls",
    "gdb program core",
    "curl https://example.com/.ssh/x",
    "scp x host:/home/u/.ssh/y",
    "git config user.email a@b",
    "git config submodule.x.path y",
    "python -m gonogogo",
    "please build",
    # Words that are only said, and files that only have such names.
    "python -c 'print(\"rm -rf /\")'",
    "sed -i '/etc/d' f",
    "sed 's|apt|sudo apt|' x",
    "awk '{print \"run at\"}' f",
    "MSG='sudo make me' ./x",
    'CMD="sudo apt install"; echo "run $CMD"',
    'X=build; rm -rf "$X/out"',
    "rm -rf {build,dist}",
    "rm -rf build-$ARCH",
    "rm -rf ${DESTDIR}/usr",
    "rm -rf ../other/build",
    "cd .. && rm -rf x",
    "cd /tmp/x && touch a",
    "git submodule foreach 'git pull'",
    "git commit -m 'sudo: rm -rf / is bad'",
    "git bisect run pytest -q",
    "PAGER='less -R' git log",
    "strace -t ls",
    "nc -zv h 80",
    "curl -U a:b http://x",
    "grep -A 3 gonogo.db ~/a.py",
    "printf '%s' a | xargs touch",
    "chmod 644 a",
    _nested("rm -rf /", 4),
]


@pytest.mark.parametrize("command", HARMLESS)
def test_what_only_looks_like_it_asks(command):
    assert check_command(command, AT_HOME).decision == "ask"


def test_of_a_command_too_long_for_its_structure_each_piece_is_looked_at():
    long = "ls " + "a" * 65_536
    assert check_command(long, AT_HOME).decision == "ask"
    found = check_command(f"{long}; rm  -rf $'\\x2f' \n ls", AT_HOME)
    assert (found.decision, found.reason) == ("deny", "removes /")
