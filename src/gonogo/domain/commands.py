"""Commands as words: programs that start others, and room for the paths of files."""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from gonogo.domain.errors import because

# Programs that start other programs, in one list for scopes, rules and whoever reads a command.
#
# Whoever may start such a program may start anything, unless what it starts is named.


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _verbs(text: str) -> dict[str, frozenset[str]]:
    lines = (line.partition(":") for line in text.split(";"))
    return {name: _words(verbs) for names, _, verbs in lines for name in names.split()}


WRAPPERS = _words(
    # The shell's own: they run a command, change what one means, or where the next one runs.
    """command builtin exec eval source . coproc trap alias unalias export declare typeset local
    readonly set unset shopt let read mapfile readarray getopts enable hash bind complete compgen
    compopt fc cd pushd popd dirs time function then do else if elif while until for select case
    ! { repeat noglob nocorrect"""
    # As somebody else, with other limits, in other surroundings.
    """ env envdir envuidgid setuidgid nohup nice ionice chrt taskset numactl schedtool uclampset
    prlimit softlimit chpst setpriv capsh setarch linux32 linux64 i386 i486 i586 i686 x86_64
    uname26 personality choom cgexec setsid setlsid stdbuf unbuffer timeout timelimit cpulimit
    loadwatch nocache eatmydata faketime fakeroot fakeroot-ng fakeroot-tcp fakeroot-sysv
    fakechroot pseudo proot pkexec sudo sudo-rs sudoedit doas su sg newgrp runuser run0 super
    calife sux gksu gksudo kdesu kdesudo please su-exec gosu chroot schroot dchroot chrootuid
    unshare nsenter newpid minijail minijail0 nsjail firejail bwrap bubblewrap flatpak-spawn
    sandbox sandbox-exec aa-exec runcon newrole systemd-run systemd-nspawn systemd-inhibit
    systemd-cat systemd-socket-activate systemd-vmspawn caffeinate trickle torsocks torify tsocks
    proxychains proxychains4 usewithtor vglrun optirun primusrun prime-run gamemoderun mangohud
    nixgl aoss padsp pasuspender pw-jack ld.so ldd catchsegv tini dumb-init catatonit execlineb
    with-contenv start-stop-daemon daemon daemonize supervise setlock fghack pgrphack runsv openvt
    rungetty agetty getty login busybox toybox coreutils sbase-box"""
    # Again, later, when something happens, several at once.
    """ xargs parallel sem env_parallel pexec xjobs rush startpar watch viddy hwatch entr reflex
    modd watchexec nodemon chokidar onchange when-changed watchmedo watchman-make fswatch
    inotify-hookable inoticoming incrond iwatch rerun snooze at batch cron crontab anacron mcron
    run-parts run-one run-one-constantly run-one-until-success run-one-until-failure
    run-this-one keep-one-running chronic ifne mispipe pee zrun lckdo vipe vidir flock lockrun
    lockf shlock solo cronic cronitor shush retry retrying tsp nq xautolock xidlehook swayidle
    xss-lock xidle concurrently npm-run-all run-s run-p cross-env cross-env-shell env-cmd dotenv
    dotenvx dotenv-cli start-server-and-test dockerize wait-for-it wait-for confd
    consul-template envconsul envchain summon rlwrap rlfe ledit cle mpirun mpiexec mpiexec.hydra
    orterun srun salloc sbatch prun qsub qrsh bsub condor_run jsrun aprun"""
    # Beside it: to measure, trace, record, debug, compile.
    """ hyperfine bench multitime poop perf strace ltrace sysdig bpftrace dtrace dtruss uftrace
    valgrind heaptrack memusage xtrace apitrace rr gdb gdbserver cgdb ddd nemiver edb lldb
    lldb-server rust-gdb rust-lldb samply flamegraph py-spy memray scalene austin pyinstrument
    viztracer debugpy kernprof script scriptlive ttyrec asciinema termtosvg expect autoexpect
    empty logsave ccache sccache distcc icecc icerun bear intercept-build scan-build compiledb
    libtool pbuilder cowbuilder sbuild debuild nix-shell"""
    # On a screen of its own.
    """ xvfb-run xinit startx dbus-run-session dbus-launch ssh-agent keychain xterm uxterm rxvt
    urxvt konsole gnome-terminal xfce4-terminal lxterminal terminator tilix alacritty kitty
    wezterm foot eterm mlterm x-terminal-emulator xdg-terminal-exec open xdg-open exo-open
    gtk-launch kde-open kstart kstart5 run-mailcap sensible-browser start cygstart osascript
    automator cmd wscript cscript mshta rundll32 wsl wine wine64 wineconsole dosbox box64 box86
    fex"""
)
"""They run the command that stands among their words."""

HOSTS = _words(
    """ssh slogin autossh mosh sshpass rsh rlogin rexec remsh dbclient pssh parallel-ssh pdsh clush
    dsh mussh cssh clusterssh ansible ansible-console ansible-playbook ansible-pull salt salt-call
    salt-ssh puppet chef-client chef-apply chef-solo knife fab cap capistrano pyinfra bolt docker
    docker-compose podman podman-compose nerdctl buildah crictl ctr runc crun lxc lxc-attach
    lxc-execute lxc-start incus machinectl singularity apptainer ch-run udocker enroot toolbox
    toolbx distrobox distrobox-enter kubectl k3s oc microk8s minikube vagrant multipass limactl
    lima colima virsh virt-customize guestfish adb socat tcpserver tcpsvd udpsvd inetd xinetd
    tmux screen byobu zellij dtach abduco dvtm mtm tmate ttyd gotty wetty gio xdotool i3-msg
    swaymsg watchman guard supervisord supervisorctl circusd pm2 forever foreman forego honcho
    homectl overmind hivemind goreman shoreman process-compose mprocs pueue fq svscan runsvdir
    dlv delve radare2 r2 rizin flux"""
)
"""They run it in another place: on another machine, in a container, in a session of their own."""

CALLERS = _words("bun deno lua luajit node nodejs php pypy python")
"""In their code a name starts nothing without a bracket."""

CONSOLES = _words(
    """vi vim nvim view rview rvim vimdiff gvim gview elvis nvi vile ed red ex emacs emacsclient
    xemacs jove mg zile nano rnano pico micro joe jmacs jstar jpico rjoe ne kak hx helix code
    codium sensible-editor editor select-editor edit less lessfile lesspipe more most pg pager
    sensible-pager info pinfo lynx links elinks w3m mutt neomutt alpine mail mailx nail s-nail ftp
    lftp sftp ncftp telnet cu tip minicom picocom sqlite sqlite3 litecli psql pgcli mysql mariadb
    mycli mssql-cli sqlcmd usql duckdb clickhouse clickhouse-client clickhouse-local cqlsh mongosh
    mongo isql sqlplus sqlcl beeline hive spark-sql spark-shell trino presto impala-shell arangosh
    redis-cli fzf sk skim vifm ranger nnn lf mc yazi broot ncdu tig lazygit gitui lazydocker k9s
    cscope crash mdb dc gnuplot maxima gp octave visidata vd sc-im weechat irssi"""
)
"""Editors, pagers, clients of databases: a word, a key or a line of input starts a shell."""

SHELLS = _words(
    """sh bash rbash dash zsh rzsh ksh mksh oksh loksh pdksh lksh rksh ash bosh posh yash fish fizsh
    csh tcsh rc es scsh elvish nu nush xonsh oil osh ysh ion murex hush lash sash msh ngs dgsh
    pwsh powershell git-shell lshell rssh scponly"""
)
"""They read commands from a file, from a word, or from what they are fed."""

INTERPRETERS = _words(
    """python pythonw py pypy ipython bpython ptpython jython micropython perl raku rakudo ruby
    jruby truffleruby mruby irb pry node nodejs deno tsx ts-node ts-node-dev esno zx jsc d8
    qjs mujs gjs electron phantomjs coffee php php-cgi phpdbg hhvm lua luajit texlua fennel
    moon tclsh wish jimsh awk gawk mawk nawk original-awk goawk gsed ssed minised r rscript
    littler julia matlab scilab ghci runghc runhaskell ocaml utop sbcl clisp ecl ccl abcl
    guile racket gracket csi gosh gsi scheme petite clojure clj bb lein janet joker erl
    escript iex elixir swipl prolog gprolog yap scala amm groovy groovysh kotlin jshell java
    javaw jbang dotnet mono fsi fsharpi csharp cling root nim nimble crystal v zig swift
    dart flutter go cargo rust-script evcxr tcc m4 gs ghostscript sage papermill jupyter hy
    wasmtime wasmer wasmedge"""
    """ make gmake bmake nmake pmake ninja samu just task go-task rake thor invoke inv doit tox nox
    gradle gradlew mvn mvnw ant sbt mill mage bazel bazelisk buck buck2 pants please plz scons
    waf msbuild xbuild xmake premake bjam b2 snakemake nextflow redo tup earthly dagger nx
    turbo lerna gulp grunt jake cake fastlane mix rebar3 stack cabal opam dune esy shards dub
    composer artisan drush wp rails django-admin flask npm"""
)
"""They run code, a script, or a target of a build: which one has to be named."""

MODULES = _words(
    """asyncio bpython code coverage cProfile debugpy idlelib IPython jupyter memray pdb profile
    ptpython pudb pyinstrument runpy scalene timeit trace viztracer xonsh"""
)
"""Modules of Python that run what they are told behind their name."""

RUNNERS = _verbs(
    """uvx npx pnpx bunx pkgx xcrun chruby-exec:; uv: run tool x; pnpm yarn bun: exec dlx run x;
    pipx poetry pipenv hatch pdm rye conda mamba micromamba volta coverage doppler infisical op
    heroku: run; pixi: run exec; npm: exec x; bundle bundler rbenv pyenv nodenv goenv jenv plenv
    phpenv asdf vfox stack cabal opam carton perlbrew gem composer lerna nx dotnet skaffold: exec"""
)
"""They run the program that is named next, or next after one of these words."""
TAKE_ANY = _words("pnpm yarn bun")
"""Those of them that run a word that they do not know, too."""
FAR_RUNNERS = _verbs(
    """direnv: exec; nix: run shell develop; guix: shell environment; devbox: run shell;
    devenv: shell; spack: build-env test-env; ip: netns vrf; rustup: run; n nvm: exec run;
    fnm: exec; mise rtx: exec x; rvm: do; aws-vault chamber: exec; teller: run;
    sops: exec-env exec-file; snap: run; flatpak: run enter; meson: devenv; repo: forall;
    vcsh: run enter; consul: exec lock watch; nomad: exec alloc; etcdctl: lock watch elect;
    fly flyctl: ssh console; railway: run shell; firebase: emulators:exec ext:dev:emulators:exec;
    cmake: -E -P"""
)
"""They run one too; how far behind such a word it stands depends on what stands between."""

_OPTIONS = _words(
    """-exec -execdir -ok -okdir -toolexec -wrapper --exec --execdir --exec-batch --sh-exec
    --lua-exec --command --cmd --shell-command --shell --script-shell --eval --execute --pager
    --editor --rsh --rsh-command --rmt-command --rsync-path --to-command --use-compress-program
    --compress-program --checkpoint-action --info-script --new-volume-script --diff-cmd --diff3-cmd
    --diff-program --editor-cmd --extcmd --upload-pack --receive-pack --open-files-in-pager
    --strip-program --hostname-bin --toolexec --wrapper --init-hook --use-askpass --unzip-command
    --post-renderer --shell-escape -shell-escape --enable-write18 --photo-viewer"""
)
"""Options that start a program, whosever they are."""
_OPTIONS_OF = _verbs(
    """rg: --pre --hostname-bin; find: -exec -execdir -ok -okdir; sort: --compress-program;
    tar bsdtar: -I -F --use-compress-program --to-command --checkpoint-action --info-script
        --new-volume-script --rsh-command --rmt-command;
    cpio: --rsh-command --rmt-command; fd fdfind: -x -X; split: --filter; rsync: -e; zip: -TT;
    git: -c -x -O --exec-path --config-env --upload-pack --receive-pack --exec --extcmd
        --tree-filter --index-filter --msg-filter --commit-filter --parent-filter --env-filter
        --tag-name-filter --sendmail-cmd;
    man: -P -H --html --pager; go: -vettool; cargo hg: --config; svn: --config-option;
    make gmake: -f -E --file --makefile --eval; ctest: -S --script --build-and-test --test-command;
    gcc cc clang: -specs -fplugin; rpm: -E --pipe --define; apt apt-get: -o --option;
    dpkg: --pre-invoke --post-invoke; mypy: --python-executable; pip: --python;
    npm: -c --call --node-options --git --script-shell; tcpdump: -z; install: --strip-program;
    nc ncat netcat: -e -c --exec --sh-exec --lua-exec; scp sftp: -S -o;
    npx: -c --call; java: -XX:OnError -XX:OnOutOfMemoryError;
    pandoc: -F -L --filter --lua-filter --pdf-engine; sdiff diff3: --diff-program"""
)
"""Those of one program, which it may take for other names or for fewer of their letters."""
_GNU = _words(
    """chroot cpio env find install nice nohup sdiff sort split stdbuf tar time timeout xargs"""
)
"""They bear a `g` before their names where the system has others of its own."""
_READ_WORDS = (WRAPPERS | HOSTS | CONSOLES | SHELLS) - _words(
    """command builtin exec time nohup nice ionice chrt taskset numactl prlimit setpriv setarch
    stdbuf unbuffer timeout setsid xargs chronic strace ltrace perf valgrind ccache sccache
    eatmydata fakeroot caffeinate tini dumb-init"""
)
"""All but those that are known to take their words as they stand."""
_LISTED = frozenset[str]().union(
    WRAPPERS, HOSTS, CONSOLES, SHELLS, INTERPRETERS, RUNNERS, FAR_RUNNERS, _OPTIONS_OF
)
_VARIANT = re.compile(
    r"(?:[-._]?\d[\d.]*|[-.](?:static|bin|real|tiny|basic|nox|gtk\d?|huge|minimal|multiarch|orig"
    r"|exe|dbg|py|system|user|x86_64|aarch64))+$"
)
_LOADERS = re.compile(r"ld(?:-[\w-]+)?\.so(?:\.\d+)*|qemu-[\w-]+|s6-[\w-]+")
"""Programs of many names, which all run what stands behind theirs."""
_HEADS = {
    program: re.compile(head.replace(" ", "\0").replace("_", r"[^\0-][^\0]*"))
    for programs, head in (
        ("nohup chronic eatmydata", ""), ("time", "(?:-[pv] )*"),
        ("setsid", "(?:-[cfw] |--(?:ctty|fork|wait) )*"),
        ("nice", r"(?:-n ?-?\d+ |--adjustment=-?\d+ |-\d+ )?"),
        ("timeout", r"(?:-v |--(?:foreground|preserve-status|verbose) |-[ks] ?_ "
                    r"|--(?:kill-after|signal)[= ]_ )*\d[\d.]*[smhd]? "),
        ("stdbuf", "(?:-[ioe] ?_ |--(?:input|output|error)[= ]_ )*"),
        ("env", r"(?:-[iv] |-u ?_ )*(?:[A-Za-z]\w*=[\w./:@,-]* )*"),
        ("xargs", r"(?:-[0rt] |-[nLP] ?\d+ |-I ?_ )*"),
    ) for program in programs.split()
}  # fmt: skip
"""What stands before the command that some of them start, where that is beyond doubt."""
_FEW = 24
_PLAIN = re.compile(r"[\w./@][\w./@-]*")
_GIT_RUNS = _words("foreach run")
_CONTAINERS = _words("docker docker-compose podman podman-compose nerdctl kubectl oc crictl")
_SHARES = re.compile(
    r"-\w*v|--(?:privileged|pid|ipc|uts|userns|net\w*|volumes?\b|volumes-from|mount|device|cap-add"
    r"|security-opt|rootfs|overrides)"
)
"""With these a container has something of this machine."""
_SSH_OPTIONS = r"(?:-\w*[BbcDEeFIiJLlmOopPQRSWw]\0[^\0]*\0|-[^\0]*\0)*+"
_SSH_HOST = re.compile(
    rf"{_SSH_OPTIONS}(?![^\0]*(?:localhost|127\.|::1|0\.0\.0\.0))[^\0]+\0{_SSH_OPTIONS}"
)
"""What ssh is told before the command for another machine."""
_STARTING = _words("-- run exec shell")
"""Behind these stands what those of `HOSTS` run that have commands of their own."""


def base_name(program: str) -> str:
    """The program without its folder."""
    return program.rstrip("/").rpartition("/")[2]


@lru_cache(maxsize=4_096)
def family(program: str) -> str:
    """The name by which the lists know a program: `/usr/bin/Python3.12` is `python`."""
    name = base_name(program).casefold()
    if _LOADERS.fullmatch(name):
        return "ld.so"
    plain = _VARIANT.sub("", name)
    gnu = plain[1:] if plain.startswith("g") and plain[1:] in _GNU else plain
    return next((form for form in (name, plain, gnu) if form in _LISTED), base_name(program))


def starts_others(word: str, program: str) -> bool:
    """Whether a word is an option that starts a program, however much of its name is left out.

    Args:
        program: Its family.
    """
    if not word.startswith("-"):
        return False
    name = word.partition("=")[0]
    own = _OPTIONS_OF.get(program, frozenset())
    if name in _OPTIONS or name in own:
        return True
    if name.startswith("--"):
        return len(name) > 2 and any(option.startswith(name) for option in own)
    letters = {option[1] for option in own if len(option) == 2}
    return not letters.isdisjoint(name)


def started_at(argv: Sequence[str]) -> Iterator[int]:
    """Where among the words of a command the command may begin that its program starts."""
    known = 0
    while found := begins_at(argv, known):
        known = found
        yield known
    yield from _may_begin_at(argv, known)


def begins_at(argv: Sequence[str], at: int = 0) -> int:
    """Where the command begins that the program at a place starts, if beyond doubt; else 0."""
    program = family(argv[at])
    verbs, head = RUNNERS.get(program), _HEADS.get(program)
    start = 0
    if verbs is not None:
        told = next((n for n in range(at + 1, len(argv)) if argv[n] not in verbs), at)
        start = told if told > at + 1 or not verbs else 0
    elif head is not None:
        found = head.match("\0".join((*argv[at + 1 : at + _FEW], "")))
        start = at + 1 + found[0].count("\0") if found else 0
    return start if at < start < len(argv) and _PLAIN.fullmatch(argv[start]) else 0


def here(argv: Sequence[str]) -> Sequence[str]:
    """The words that this machine reads: not those for another one, or for a container.

    A container that is started with more than its own is this machine.
    """
    start = 0
    while found := begins_at(argv, start):
        start = found
    program = family(argv[start])
    if program in ("ssh", "slogin"):
        told = _SSH_HOST.match("\0".join((*argv[start + 1 : start + _FEW], "")))
        return argv[: start + 1 + told[0].count("\0")] if told else argv
    verbs = (n for n in range(start, len(argv)) if argv[n] in ("exec", "run"))
    verb = next(verbs, len(argv)) if program in _CONTAINERS else len(argv)
    shares = "run" in argv[verb : verb + 1] and any(map(_SHARES.match, argv[verb:]))
    return argv if shares else argv[: verb + 1]


def _may_begin_at(argv: Sequence[str], at: int) -> Iterator[int]:
    program = family(argv[at])
    verbs = FAR_RUNNERS.get(program, RUNNERS.get(program))
    if program in HOSTS:
        verbs = _STARTING
    if program == "git":
        verbs = _GIT_RUNS
    if program in WRAPPERS or verbs == frozenset():
        yield from range(at + 1, len(argv))
    elif verbs is not None:
        begun = next((n for n in range(at, len(argv)) if argv[n] in verbs), len(argv))
        yield from range(begun + 1, len(argv))


def option_values(argv: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """The values of an option, glued to it, behind other letters, or of a name cut short."""
    for word, following in pairwise((*argv[1:], "")) if names else ():
        if not word.startswith("-"):
            continue
        name, equals, value = word.partition("=")
        for option in names:
            glued = re.match(rf"-[a-zA-Z]{{0,3}}?{option[1]}(.*)", word)
            if name == option or (len(name) > 3 and option.startswith(name)):
                yield value if equals else following
            elif glued and len(option) == 2:
                yield glued[1] or following


def reads_words(program: str) -> bool:
    """Whether a program may take one of its words for a whole command."""
    return family(program) in _READ_WORDS


def reads_code(program: str) -> bool:
    """Whether a program may be told code, in a word or in what it is fed, that starts others."""
    kind = family(program)
    lists = (WRAPPERS, HOSTS, CONSOLES, SHELLS, INTERPRETERS)
    return kind == "sed" or any(kind in names for names in lists)


# Where a command of the operator's has room for the paths of files: `{files}`, `{files:*.py}`.
#
# The names of files are an agent's, and the command is run by bash. Each comes as a quoted word, so
# it is one only where bash does not read within quotes already: `bash -c "lint {files}"` would run
# what a name says.

FILES = re.compile(r"\{files(?::([^{}]*))?\}")
"""What stands for the paths of the files, or of those whose names match one of the globs."""
_ANY = "{files"
_HERE = re.compile(r"(?<!<)<<(?!<)")
_BEFORE_COMMENT = " \t\n;&|()"
_PAIRS = ("$'", "$(", "${")
_CLOSERS = {"'": "'", "$'": "'", '"': '"', "`": "`", "(": ")", "{": "}", "#": "\n"}
"""What ends what a sign began."""


def files_problem(command: str) -> str | None:
    """Why names of files cannot be put into a command of bash; None where they can."""
    found = {match.start(): match.end() for match in FILES.finditer(command)}
    for at in _places(command, _ANY):
        if at not in found:
            shown = command[at : at + 40].split("\n", 1)[0]
            return because(
                "{shown!r} is not understood: write {{files}}, or {{files:*.ts,*.tsx}}", shown=shown
            )
    bare = _bare(command, found)
    for at in found:
        if at not in bare:
            return because(
                "{shown} must stand by itself, outside quotes, backquotes and "
                "here-documents, and not after $ or \\: there, bash would run a file's "
                "name as code",
                shown=command[at : found[at]],
            )
    return None


def _places(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _bare(command: str, found: dict[int, int]) -> set[int]:
    """Which of some places bash reads as code, neither escaped nor within anything."""
    bare: set[int] = set()
    within: list[str] = []
    at, until = 0, _end_of_code(command)
    while at < until:
        if at in found:
            bare.update({at} if set(within) <= {"("} and command[at - 1 : at] != "$" else ())
            at = found[at]
            continue
        sign = _sign(command, at, within[-1:])
        if within and sign == _CLOSERS[within[-1]]:
            within.pop()
        elif sign in _opened_by(within[-1:]) and _is_word_start(command, at, sign):
            within.append(sign.lstrip("$") if sign != "$'" else sign)
        at += len(sign)
    return bare


def _sign(command: str, at: int, innermost: list[str]) -> str:
    """What stands at a place: a character, one with a backslash, or two that belong together."""
    two = command[at : at + 2]
    if two[:1] == "\\" and innermost not in (["'"], ["#"]):
        return two
    return two if two in _PAIRS and two in _opened_by(innermost) else two[:1]


def _opened_by(innermost: list[str]) -> Collection[str]:
    """What begins something within what holds a place."""
    match innermost:
        case ["'" | "$'" | "#"]:
            return ()
        case ['"']:
            return ("$(", "${", "`")
        case _:
            return ("'", '"', "`", "#", "(", *_PAIRS)


def _is_word_start(command: str, at: int, sign: str) -> bool:
    """Whether a sign means what it says: `#` begins a comment only where a word could begin."""
    return sign != "#" or at == 0 or command[at - 1] in _BEFORE_COMMENT


def _end_of_code(command: str) -> int:
    """Where the first here-document begins: nothing is told apart from there on."""
    here = _HERE.search(command)
    end = command.find("\n", here.end()) if here is not None else -1
    return len(command) if end < 0 else end
