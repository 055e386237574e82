"""Rules of review: every one that fits holds; a file that leaves nobody to decide is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gonogo.domain.findings import ProfileFacts
from gonogo.domain.identity import Principal, Role
from gonogo.domain.plan import Scope, Subtask
from gonogo.domain.reviews import Deed, Doings, Review, reviewer_name, strictest
from gonogo.domain.tool_calls import ToolClass
from gonogo.policy import BadRules, load_reviews, load_rules
from gonogo.policy.reviewers import _may_begin
from gonogo.policy.shell import UNKNOWN

ANN = Principal(id="user:ann", name="ann", role=Role.OPERATOR)
BOB = Principal(id="user:bob", name="bob", role=Role.OPERATOR)
EVE = Principal(id="user:eve", name="eve", role=Role.ADMIN)


@pytest.fixture
def load(tmp_path):
    def loading(user, admin=None):
        for name, text in (("user", user), ("admin", admin)):
            if text is not None:
                (tmp_path / f"{name}.toml").write_text(text)
        return load_reviews(tmp_path / "admin.toml", tmp_path / "user.toml")

    return loading


def one(**fields):
    lines = [
        f"{name} = {'true' if value is True else repr(value).replace(chr(39), chr(34))}"
        for name, value in fields.items()
    ]
    return "\n".join(["[[review]]", *lines, ""])


def call(tool="write_file", agent="coder", **more):
    return Deed(agent=agent, tools=frozenset({tool}), **more)


def command(text):
    return call("execute_command", commands=(text,))


def test_reviews_stand_beside_rules_in_the_same_two_files(tmp_path, load):
    user = '[[rule]]\ncommand = "ls"\ndecision = "allow"\n' + one(kind="plan", approvals=2)
    reviews = load(user, one(role="admin"))

    assert [rule.name for rule in reviews.rules] == ["admin:review:1", "user:review:1"]
    assert reviews.of("plan", ()) == Review(
        needed=2, role="admin", rules=("admin:review:1", "user:review:1")
    )
    rules = load_rules(None, tmp_path / "user.toml")
    assert [rule.name for rule in rules.user] == ["user:1"]


def test_what_no_rule_speaks_of_has_no_review(load):
    assert load_reviews(None, None).of("plan", ()) is None
    assert load(one(kind="plan")).of("tool", (call(),)) is None


@pytest.mark.parametrize(
    ("fields", "fits", "not_"),
    [
        ({"tool": "write_file"}, call(), call("edit_file")),
        ({"agent": "coder"}, call(), call(agent="debug")),
        ({"tool": "*", "agent": "*", "path": "db/**"}, call(paths=("db/a.sql",)), call()),
        ({"path": "src/*.py"}, call(paths=("src/a.py",)), call(paths=("src/a/b.py",))),
        ({"path": "src"}, command("rm src/a.py"), command("rm doc/a.py")),
        ({"path": "a/x"}, call("execute_command", commands=("rm x",), cwd="a"), command("rm x")),
        ({"command": "git push"}, command("git push origin"), command("git pull")),
        ({"command": "git push"}, command("ls && git -C x push"), command("git")),
        ({"command": "git push"}, command("sh -c 'git push'"), command("echo push")),
        ({"command": "git push"}, command("git $WHAT"), command("date")),
        ({"command": "git push"}, command("$X"), command("ls")),
        ({"command": "git push"}, command("git push \ud800"), command("git x\ud800")),
        ({"tool": "execute_command", "command": "rm *"}, command("rm x"), call(commands=("rm x",))),
    ],
)
def test_a_review_speaks_of_what_it_names(load, fields, fits, not_):
    reviews = load(one(**fields))

    assert reviews.of("tool", (not_, fits)) is not None
    assert reviews.of("tool", (not_,)) is None
    assert reviews.of("intervention", ()) is None


@pytest.mark.parametrize(
    "text",
    [
        "rm db/x", "rm -r db", "rm -rf .", "rm -rf *", "rm d*/x", "rm d?/x", "rm [a-d]b/x",
        "rm {db,src}/x", "rm s{a,/../../db}/x", "rm /srv/here/db/x", "rm ../here/db/x",
        "rm /usr/../srv/here/db/x", "rm ~/here/db/x", "rm $X", "rm src/$X", "rm `cat list`",
        "cd db && rm x", "git -C db rm x", "tar --directory=db -xf a", "tar -Cdb -xf a",
        "dd if=a of=db/x", "echo a > /srv/here/db/x", "sh -c 'rm ../here/db/x'", "ls; cp a db",
    ],
)  # fmt: skip
def test_no_way_of_writing_a_path_gets_around_those_who_review_it(load, text):
    assert load(one(path="db/**")).of("tool", (command(text),)) is not None


@pytest.mark.parametrize(
    "text",
    ["rm src/x", "rm src/*", "ls -la src", "pytest", "cat /etc/hosts", "grep a=b src/[ab].py",
     "git commit -m 'fix: it'", "cp src/{a,b} src", "curl https://example.org/db/x > src/x",
     "run 2>/dev/null"],
)  # fmt: skip
def test_what_lies_elsewhere_is_not_reviewed_for_a_path(load, text):
    assert load(one(path="db/**")).of("tool", (command(text),)) is None


def test_globs_that_take_too_long_to_compare_count_as_fitting(load):
    hard = "*a" * 100 + "b"
    deeds = [call(paths=tuple(f"{'a*' * 100}{n}" for n in range(60)))]
    assert load(one(path=hard)).of("tool", deeds) is not None


def test_a_plan_is_reviewed_for_what_it_would_let_its_subtasks_do(load):
    agents = {"coder": ProfileFacts(tools=("write_file", "delete_file", "execute_command")),
              "ask": ProfileFacts(tools=("read_file",))}  # fmt: skip
    classes = {"write_file": ToolClass.IDEMPOTENT, "delete_file": ToolClass.OTHER,
               "execute_command": ToolClass.OTHER, "read_file": ToolClass.PURE}  # fmt: skip
    doings = Doings(agents=agents, tools=classes, always_ask=frozenset({"delete_file"}))

    def subtask(agent="coder", **scope):
        told = Scope(**scope) if scope else None
        return doings.of((Subtask(id="a", description="d", agent=agent, scope=told),))

    push = load(one(command="git push"))
    assert push.of("plan", subtask(commands=("git",))) is not None
    assert push.of("plan", subtask(commands=("git push --tags",))) is not None
    assert push.of("plan", subtask(commands=("git pull",))) is None
    assert push.of("plan", subtask()) is None
    db = load(one(path="db/**"))
    assert db.of("plan", subtask()) is not None
    assert db.of("plan", subtask(paths=("d*/x",))) is not None
    assert db.of("plan", subtask(paths=("src/**",))) is None
    assert db.of("plan", subtask("ask")) is None
    # These ask each time, whatever the plan says.
    assert load(one(tool="delete_file")).of("plan", subtask()) is None
    runs = load(one(tool="execute_command"))
    assert runs.of("plan", subtask()) is None
    assert runs.of("plan", subtask(commands=("ls",))) is not None


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('review = 1', 1, "tables"),
        ('[[review]]\nfoo = 1', 1, "foo"),
        ('\n[[review]]\napprovals = 0', 2, "approvals"),
        (one(kind="plan") + one(reviewers=[]), 3, "reviewers"),
        (one(reviewers=["a b"]), 1, "reviewers"),
        (one(role="viewer"), 1, "role"),
        (one(command="g\u0456t push"), 1, "command: it reads as another word"),
        (one(tool="push\u200b"), 1, "tool: it contains U+200B"),
        (one(command="a && b"), 1, "not one simple command"),
        (one(command="ls", tool="write_file"), 1, "takes no commands"),
        (one(reviewers=["ann", "user:ann"], approvals=2), 1, "2 approvals are needed, and 1"),
        (one(escalate_after="1h"), 1, "say who can decide"),
        (one(escalate_to=["ann"]), 1, "say when they can decide"),
        (one(escalate_role="admin"), 1, "say when they can decide"),
        (one(expires_after="soon"), 1, "expires_after"),
        ('review = [1]', 1, "review 1: review: "),
        ("[[", 0, ""),
        (one(reviewers=["ann"]) + one(kind="tool", reviewers=["bob"]), 3, "no reviewer in common"),
        (one(kind="plan", approvals=2) + one(reviewers=["bob"]), 4, "2 approvals are needed"),
    ],
)  # fmt: skip
def test_a_file_with_a_defect_is_refused_whole_with_its_line(load, tmp_path, text, line, said):
    with pytest.raises(BadRules) as refused:
        load(text)
    where = f"{tmp_path / 'user.toml'}:{line or ''}"
    assert str(refused.value).startswith(where)
    assert said in str(refused.value)


def test_two_files_that_leave_nobody_are_refused_and_both_are_named(load, tmp_path):
    with pytest.raises(BadRules) as refused:
        load(one(reviewers=["ann"]), one(reviewers=["bob"]))
    assert f"{tmp_path / 'user.toml'}:1: " in str(refused.value)
    assert f"see {tmp_path / 'admin.toml'}:1" in str(refused.value)


def test_two_that_need_not_meet_are_kept_and_nobody_approves_where_they_do(load):
    reviews = load(one(tool="write_file", reviewers=["ann"]) + one(path="db", reviewers=["bob"]))
    found = reviews.of("tool", (call(paths=("db/x",)),))

    assert found.reviewers == ()
    assert found.problem() == (
        "the rules of review name no reviewer in common (user:review:1, user:review:2)"
    )
    assert not any(found.admits(who) for who in (ANN, BOB, EVE))


def test_a_kind_of_question_that_nobody_asks_is_refused(load, tmp_path):
    reviews = load(one(kind="deploy") + one(kind="*"))
    reviews.check_kinds({"plan", "deploy"})
    with pytest.raises(BadRules, match=r"user.toml:1: there is no kind 'deploy'; use plan, tool"):
        reviews.check_kinds({"tool", "plan"})


def test_spans_are_seconds_minutes_hours_or_days(load):
    text = "".join(
        one(kind=k, expires_after=s) for k, s in zip("abcd", ["9s", "9m", "9h", "9d"], strict=True)
    )
    found = [rule.review.expires_after for rule in load(text).rules]
    assert found == [9, 540, 32_400, 777_600]


def test_the_strictest_of_everything_holds():
    one_ = Review(
        needed=2, reviewers=("user:ann", "user:bob"), expires_after=9, escalate_after=5,
        escalate_to=("user:eve", "user:zoe"), rules=("a",),
    )  # fmt: skip
    other = Review(
        role="admin", reviewers=("user:bob", "user:eve"), not_requester=True, expires_after=3,
        escalate_after=7, escalate_to=("user:kim",), rules=("b",),
    )  # fmt: skip
    assert strictest((one_, other)) == Review(
        needed=2, role="admin", reviewers=("user:bob",), not_requester=True, expires_after=3,
        escalate_after=7, escalate_to=("user:eve",), rules=("a", "b"),
    )  # fmt: skip
    assert strictest((one_, Review(reviewers=("user:ann",)))).escalate_after is None
    assert strictest(()) == Review()


def test_a_role_is_let_in_only_where_every_rule_that_names_reviewers_lets_one_in():
    named = Review(reviewers=("user:ann",), escalate_after=1, escalate_role="operator")
    free = Review(escalate_after=2, escalate_role="admin")
    assert strictest((named, free)).escalate_role == "admin"
    assert strictest((named, Review(reviewers=("user:ann",)))).escalate_role is None


def test_who_is_let_in_later_decides_like_the_others():
    review = Review(
        reviewers=("user:ann",), not_requester=True, escalate_to=("user:bob",),
        escalate_role="admin",
    )  # fmt: skip
    assert [review.admits(who) for who in (ANN, BOB, EVE)] == [True, False, False]
    later = review.escalated()
    assert [later.admits(who) for who in (ANN, BOB, EVE)] == [True, True, True]
    assert review.problem("user:ann") == "1 approvals are needed, and 0 may approve"
    assert later.problem("user:ann") is None
    assert Review(reviewers=("user:ann",), also=("user:bob",)).problem() is None
    assert Review(reviewers=(), also=("user:b",), needed=2).problem().startswith("2 approvals")


def test_roles_and_requesters_are_told_apart():
    review = Review(role="admin", not_requester=True)
    assert [review.has_role(who) for who in (ANN, EVE)] == [False, True]
    assert [review.bars(who, "user:ann") for who in (ANN, EVE)] == [True, False]
    assert not Review().bars(ANN, "user:ann")
    assert Review().admits(ANN)
    assert not Review().names(ANN)
    assert [reviewer_name(who) for who in ("user:ann", "local")] == ["ann", "local"]


_REVIEWS = st.builds(
    Review,
    needed=st.integers(1, 3),
    role=st.sampled_from(["operator", "admin"]),
    reviewers=st.none() | st.sets(st.sampled_from("abc"), min_size=1).map(tuple),
    not_requester=st.booleans(),
    escalate_after=st.none() | st.integers(1, 9),
    escalate_to=st.sets(st.sampled_from("abcd")).map(tuple),
    escalate_role=st.sampled_from([None, "operator", "admin"]),
)
_PEOPLE = st.builds(
    Principal, id=st.sampled_from("abcde"), name=st.just("x"), role=st.sampled_from(Role)
)


@given(st.lists(_REVIEWS, min_size=1, max_size=4), _PEOPLE, st.sampled_from("abc"))
def test_nobody_decides_where_one_of_the_rules_would_not_have_them(reviews, who, asker):
    together = strictest(reviews)

    assert together.needed == max(review.needed for review in reviews)
    assert together.has_role(who) == all(review.has_role(who) for review in reviews)
    assert together.bars(who, asker) == any(review.bars(who, asker) for review in reviews)
    assert together.admits(who) == all(review.admits(who) for review in reviews)
    if together.escalated().admits(who):
        assert all(review.escalated().admits(who) for review in reviews)


WHOLE = """[[review]]
kind = "plan"
approvals = 2
role = "admin"
reviewers = ["ann", "oidc:1", "local", "ann"]
not_requester = true
expires_after = "90s"
escalate_after = "45m"
escalate_to = ["eve", "eve"]
escalate_role = "admin"
"""


def test_all_that_a_rule_says_is_in_its_review(load):
    (rule,) = load(WHOLE).rules
    assert rule.review == Review(
        needed=2, role="admin", reviewers=("user:ann", "oidc:1", "local"), not_requester=True,
        expires_after=90.0, escalate_after=2_700.0, escalate_to=("user:eve",),
        escalate_role="admin", rules=("user:review:1",),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("30s", 30), ("1m", 60), ("30m", 1_800), ("2h", 7_200), ("10d", 864_000)],
)
def test_spans_are_read_with_their_units(load, written, seconds):
    (rule,) = load(one(expires_after=written)).rules
    assert rule.review.expires_after == seconds


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"escalate_to": ["eve"]}, "escalate_after is missing: say when they can decide too"),
        ({"escalate_role": "admin"}, "escalate_after is missing: say when they can decide too"),
        (
            {"escalate_after": "1h"},
            "escalate_to or escalate_role is missing: say who can decide too",
        ),
        ({"tool": "write_file", "command": "ls"}, "the tool 'write_file' takes no commands"),
    ],
)
def test_what_a_rule_lacks_is_said_with_its_place(tmp_path, load, fields, said):
    with pytest.raises(BadRules) as refused:
        load(one(**fields))
    assert str(refused.value) == f"{tmp_path / 'user.toml'}:1: review 1: {said}"


@pytest.mark.parametrize(
    ("argv", "declared", "fits"),
    [
        (("git", "push"), False, True),
        (("git", "push", "x"), False, True),
        (("git",), False, False),
        (("git",), True, True),
        (("git", UNKNOWN), False, True),
        ((UNKNOWN,), False, True),
        (("ls", UNKNOWN), False, False),
        (("ls",), True, False),
    ],
)
def test_a_command_may_begin_so_as_far_as_one_can_see(argv, declared, fits):
    assert _may_begin(argv, ("git", "push"), declared) is fits
