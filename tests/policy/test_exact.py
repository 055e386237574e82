"""A denial that no person can lift is exact: what only looks like harm asks, harm is denied."""

from pathlib import Path

import pytest

from gonogo.policy import check_command, load_contexts

P2 = load_contexts(Path(__file__).parents[1] / "cases" / "policy_contexts.json")["P2"]


def _lines(text):
    return pytest.mark.parametrize("command", text.strip().splitlines())


@_lines(
    """
git log --output-indicator-new=.git
git diff --output-indicator-old .git
git clone -o .git x
git push -o .git x
cat -o .git
ps -o .git
ssh -o .git
unzip -o .git/x.zip
test -e x -o .git
touch -r .git/HEAD a
truncate -r .git/HEAD a
chmod --reference .git a
vim -R .git/config
git clone .git/modules/x y
git clone --depth 1 .git
git init -b .git x
git config -f .gitmodules --get-regexp x
git config --global --list
git config get core.pager
git config list --global
git config --rename-section branch.a branch.b
kill -l 1
mount
crontab -l
sysctl -a
sysctl net.core.somaxconn
systemctl status ssh.service
timeout 60 npm init -y
npx prisma init
uv run alembic init x
timeout 60 docker service ls
timeout 60 pytest tests -k init
time make mount
timeout 60 cargo test su
timeout -k 1 --signal KILL 60 cargo test su
nice -n 5 env A=1 cargo test su
uv run pytest su
npx jest su
xargs -n 1 grep su
timeout 9 git clone -o .git u x
uv run git clone -o .git u x
git config alias.st status
git config set alias.co 'checkout --quiet'
git -c alias.x=status x
git config user.name alias.x
git config unset core.pager
git ls-files --directory .git
git archive --prefix=.git/ HEAD
git -C .git/modules/x log
git apply .git/p
prettier --write . --ignore-path .git/info/exclude
prettier --check .git/config
black --check .git/x.py
gofmt -l .git/x.go
python -m venv x --prompt y
7z a x.7z .git/config
ar t .git/x
docker cp .git/x c:/x
aws s3 cp .git/x s3://a/x
hg clone .git/x y
cd .git && tar tf x.tar
cd .git && git log
docker exec c pytest su
docker exec -it c sh -c 'reboot'
timeout 5 podman exec c pytest -v su
docker compose exec db su postgres
docker run --rm i kill 1
kubectl exec -it p -- sudo ls
ssh host su
ssh -p 22 -v u@host -t 'sudo reboot'
nice ssh host 'rm -rf /'
GIT_DIR=.git git status
GIT_DIR=/ws/.git/modules/a GIT_INDEX_FILE=.git/index.tmp git log
GIT_WORK_TREE=src git status
X=.git/hooks ls
echo GIT_WORK_TREE=.git
PREFIX=/usr make test -C /
rg --ignore-dir=.git x
jar tf .git/x.jar
jar cf x.jar .git/x
sqlite3 -readonly .git/x.db 'select 1'
sqlite3 a.db '.output x' 'insert into git values (1)'
sphinx-build .git out
make -f .git/x -C src
"""
)
def test_what_harms_nothing_may_be_approved(command):
    found = check_command(command, P2)
    assert found.decision != "deny", found.reason


@_lines(
    """
git archive -o .git/x HEAD
git format-patch -o.git/x
git cliff -o .git/x
git diff --output=.git/x
zip --out .git/x a
zip -O .git/x a
zip .git/x a
touch -r a .git/x
touch -r -r .git/x
touch -- -r .git/x
truncate --reference a .git/x
chmod -r .git/config
chmod --reference a .git
git clone u .git/x
git clone --depth 1 u ./.git
git clone --separate-git-dir .git/x u
git init .git/x
git init -q --separate-git-dir=.git/x
git worktree add .git/x
git worktree add -b n .git/x HEAD
git worktree move a .git/x
git submodule add u .git/x
git bundle create .git/x HEAD
git mv a .git/x
git fast-export --export-marks=.git/config
timeout 5 git init .git/x
objcopy a .git/hooks/x
convert a.png .git/x
strip .git/x
vi .git/config
vim -c wq .git/config
nano .git/config
mktemp -p .git
mktemp .git/xXXX
script .git/x
sd a b .git/config
virtualenv .git/x
pip install -t .git/x y
cmake -B .git/x
tcpdump -w .git/x
go build grep -o .git/hooks/x
timeout 9 go build grep -o .git/hooks/x
timeout 9 strace -o .git/x ls
time -o .git/x ls
git checkout-index --prefix=.git/hooks/ f
git apply --directory=.git p
git am --directory .git p
git --work-tree=.git/hooks checkout f
git -C .git/hooks apply ../../p
git -C .git init x
cd .git/hooks && git apply ../../p
cd .git/hooks && patch -p1 -i ../../p
cd .git/hooks && tar xf ../../x.tar
cd .git/hooks && unzip ../../x.zip
7z a .git/x f
rar u .git/x f
ar rcs .git/x f
jar cf .git/x f
python -m venv .git/x
python3.12 -m venv --clear .git/x
uv venv .git/x
cargo new .git/x
prettier --write .git/config
eslint --fix .git
ruff format .git/x.py
gofmt -w .git/x.go
clang-format -i .git/x.c
black .git/x.py
docker cp c:/x .git/hooks/x
aws s3 cp s3://a/x .git/hooks/x
gh repo clone a/b .git/x
svn checkout u .git/x
protoc --python_out=.git x.proto
make install DESTDIR=.git
npm --prefix .git install
pip install --root .git x
javac -d .git X.java
GIT_WORK_TREE=.git/hooks git checkout x
A=b GIT_WORK_TREE=/ws/.git git checkout x
GIT_DIR=.git/modules/../hooks git init
GIT_INDEX_FILE=.git/hooks/pre-commit git add x
export GIT_WORK_TREE=.git/hooks; git checkout x
env GIT_OBJECT_DIRECTORY=.git/hooks git add x
GIT_TRACE2_EVENT=.git/hooks/x git log
git --git-dir=.git/hooks init
CARGO_TARGET_DIR=.git/hooks cargo build
npm_config_prefix=.git npm i -g x
jar --create --file .git/x a
jar -c --file=.git/x a
jar cmf m .git/x a
jar cfm .git/x m a
sphinx-build -b html src .git/hooks
pdftotext a.pdf .git/x
sqlite3 .git/x.db 'create table a(b)'
sqlite3 a.db '.once .git/x'
sqlite3 a.db "vacuum into '.git/x'"
sqlite3 -readonly a.db "attach database '.git/x' as b"
duckdb a.db "copy (select 1) to '.git/x'"
psql -c '\\o .git/x'
psql -L .git/x
make -C .git/hooks
make --directory=.git all
gmake -C.git
ninja -C .git
go -C .git/x build
cargo build --target-dir .git
uv --directory .git/x sync
yarn --cwd .git install
gradle -p .git build
mvn -f .git install
cmake --install b --prefix .git
mkdocs build --site-dir .git/x
hugo -d .git/x
pytest --basetemp=.git/x
pytest --junit-xml .git/x
mypy --html-report .git/x a
pg_dump --file=.git/x d
pip wheel -w .git x
python -m zipfile -c .git/x a
python3 -m tarfile --create .git/x a
python -m compileall .git
meson setup b .git/x
ssh-keygen -f .git/x
gcc a.c -MF .git/x
ssh -o ProxyCommand='sudo x' host
ssh $(reboot) su
ssh localhost 'sudo reboot'
docker run --pid=host i kill 1
docker run -v /:/h i chroot /h su
docker exec c ls; su
timeout -s KILL 5 su
timeout 5 nice su -c id
env -u cargo su
env A=$X su
nice $X su
uv tool run su
npx -p x su
xargs -I grep su
git config alias.x '!x'
git config alias.x '-c core.pager=x log'
git config alias.x 'rebase -x x'
git config alias.x 'grep "--open-files-in-pager=x" y'
git config alias.x 'submodule foreach x'
git config alias.x 'config core.pager x'
git config alias.x $X
git -c alias.x=!y x
git config --comment a --default b --type c alias.x '!y'
git config --rename-section x alias
git config --rename-section x core
git config get alias --rename-section
git config rename-section x alias
git config --global -- user.name --list
git config --global --comment --list user.name x
init 0
timeout 5 init -t 3 6
init $x
echo 0 | xargs init
echo -a | xargs /bin/mount
fd 0 -x init
mount -a
mount $x
service ssh stop
service $x
at now
crontab
crontab x
crontab $x
sysctl -w a.b=1
sysctl a.b=1
sysctl $x
systemctl stop ssh
systemctl status -H x
systemctl status $x
kill -l -9 1
kill -9 1
"""
)
def test_what_does_harm_is_denied(command):
    assert check_command(command, P2).decision == "deny"
