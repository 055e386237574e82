"""Commands beyond the cases to make mutants of: each program of the tables at ordinary work."""

from gonogo.policy import PolicyContext, read_contexts
from gonogo.policy.programs import _git, _programs

EVERYTHING = "everything"
"""The context in which all programs with a table are allowed."""

LINES = """
ls -lah src
cat a - /dev/null
cat src/*.py
head -20 README.md
tail -n +5 names.txt
tail +5 names.txt
cut -d/ -f2 names.txt </dev/null
grep -n "^a /etc$" names.txt
grep -rnw --include='*.ts' foo .
grep -R KEY .
grep -rl KEY src tests
grep -e one -e two src/app.py
grep -n x src/*.py
grep -r -e -- src
grep -r --include -- x .
rg -n 'fn main' src
rg --files -g '*.py'
rg KEY
rg -e -- src
find . -type f -name '*.py' -not -path './node_modules/*'
find . -newer a -size +1k -printf '%p\\n'
stat -c '%s' README.md
date -u +%FT%TZ
sort -u names.txt | uniq -c | sort -rn | head -5
cut -d',' -f 1,2 names.txt
diff -ru src tests
diff -r sub src
diff sub src
diff --from-file=a b x
diff -r -x -- src docs
sed -n '/def main/,/return/p' src/app.py
sed -n -e 1p -e '$p' src/app.py
sed -n '/^[a-z]/p;10,$!p;20q' src/app.py
jq '.dependencies | keys' package.json
jq --arg a b '.x == $a' x.json
jq '[limit(3; .x[])], .env' x.json
jq '.x[] | {name, a: .b} | "\\(.name): \\(.a|tostring)"' x.json
nl -ba src/app.py
file src/app.py
du -h -d 1 .
basename src/app.py .py
dirname src/app.py
uname -a
which -a git
true && false || echo no; pwd
cmp a b
comm -12 a b
tree -L 2 src
tree -aLI 2 node_modules src
sha256sum src/*.py
md5sum README.md
tar tf x
tar vtzf x
tar -tzf x
git status -sb
git log --oneline --graph --all
git log -n 10 --stat -- src
git log -p -3
git log main..HEAD -- src
git diff HEAD~1 -- src/app.py
git diff main...HEAD --stat
git show HEAD:src/app.py
git show --stat HEAD
git branch --contains HEAD
git branch -a -vv
git branch --list 'a/b'
git blame -L 1,10 src/app.py
git --no-pager log -3
git rev-parse --abbrev-ref HEAD
git ls-files -o --exclude-standard
git describe --tags --always
git shortlog -sn
git ls-tree -r HEAD src
git remote -v
git tag -l
git stash list
pytest -q -k 'a or b' tests/test_app.py::test_x
pytest -p no:cacheprovider -W error
mypy --strict src
ruff check --select E src
npm test
npm test -- --ci --coverage
make test
""".strip().splitlines()


def everything() -> PolicyContext:
    """Rules that allow each program with a table, as far as its table goes."""
    heads = [*_programs(), *(f"git {name}" for name in _git())]
    return read_contexts({EVERYTHING: {"allow": heads}})[EVERYTHING]
