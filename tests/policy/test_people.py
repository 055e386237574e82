"""Whether rules of review leave somebody to decide, by who there is."""

import pytest

from gonogo.domain.identity import Role
from gonogo.i18n import say
from gonogo.policy import KnownPeople, load_reviews, review_findings

PEOPLE = {
    "local": Role.ADMIN, "user:ann": Role.OPERATOR, "user:bob": Role.OPERATOR,
    "user:vic": Role.VIEWER,
}  # fmt: skip
FEW, WHEN, NOBODY, WEAK = (
    "review_too_few", "review_too_few_when", "review_nobody", "review_weak",
)  # fmt: skip


def found(tmp_path, *rules, others=False):
    (tmp_path / "rules.toml").write_text("\n".join(f"[[review]]\n{rule}\n" for rule in rules))
    known = KnownPeople(people=PEOPLE, others=others)
    return review_findings(load_reviews(None, tmp_path / "rules.toml"), known)


@pytest.mark.parametrize(
    ("rule", "codes"),
    [
        ('kind = "plan"', []),
        ("approvals = 1\nnot_requester = true", [WHEN]),
        ("approvals = 2", [WHEN]),
        ("approvals = 3", [FEW]),
        ('role = "admin"', []),
        ('role = "admin"\napprovals = 2', [FEW]),
        ('reviewers = ["ann", "bob"]\napprovals = 2', []),
        ('reviewers = ["ann", "bob"]\napprovals = 2\nnot_requester = true', [WHEN]),
        ('reviewers = ["ann"]\nnot_requester = true', [WHEN]),
        ('reviewers = ["ann", "eve"]', [NOBODY]),
        ('reviewers = ["eve"]', [NOBODY, FEW]),
        ('reviewers = ["vic"]', [WEAK, FEW]),
        ('reviewers = ["ann"]\nrole = "admin"', [WEAK, FEW]),
        ('reviewers = ["ann", "local"]\napprovals = 2', []),
        ('reviewers = ["eve"]\nescalate_after = "1h"\nescalate_to = ["ann"]', [NOBODY]),
        ('reviewers = ["ann"]\nescalate_after = "1h"\nescalate_to = ["eve"]', [NOBODY]),
        ('reviewers = ["ann", "oidc:1"]\napprovals = 2', [NOBODY, FEW]),
        ('reviewers = ["eve"]\nescalate_after = "1h"\nescalate_role = "admin"', [NOBODY]),
    ],
)
def test_a_rule_that_too_few_could_satisfy_is_found(tmp_path, rule, codes):
    assert [each.code for each in found(tmp_path, rule)] == codes


@pytest.mark.parametrize(
    ("rule", "codes"),
    [
        ("approvals = 9", []),
        ('reviewers = ["ann", "oidc:1"]\napprovals = 2', []),
        ('reviewers = ["ann", "oidc:1"]\napprovals = 2\nnot_requester = true', [WHEN]),
        ('reviewers = ["ann", "eve"]\napprovals = 2', [NOBODY, FEW]),
        ('reviewers = ["eve"]\nescalate_after = "1h"\nescalate_role = "admin"', [NOBODY]),
    ],
)
def test_whom_an_identity_provider_may_bring_counts_as_there(tmp_path, rule, codes):
    assert [each.code for each in found(tmp_path, rule, others=True)] == codes


def test_rules_that_always_hold_together_are_counted_together(tmp_path):
    narrow = 'kind = "plan"\nreviewers = ["ann", "bob"]\napprovals = 2'
    together = found(tmp_path, narrow, "not_requester = true\napprovals = 1")
    assert [(each.code, each.fields["rule"]) for each in together] == [
        (WHEN, "user:review:1"), (WHEN, "user:review:2"),
    ]  # fmt: skip
    assert found(tmp_path, narrow, 'kind = "tool"\nnot_requester = true')[0].fields["rule"] == (
        "user:review:2"
    )


@pytest.mark.parametrize(
    ("locale", "names"),
    [
        ("en", "asks: ann, bob"),
        ("ru", "но их не наберётся, если запрос сделает один из этих людей: ann, bob"),
    ],
)
def test_a_finding_says_rule_place_and_who_is_meant(tmp_path, locale, names):
    (one,) = found(tmp_path, 'reviewers = ["ann", "bob"]\napprovals = 2\nnot_requester = true')
    text = say(one.key, locale, **one.fields)
    assert one.fields["where"] == f"{tmp_path / 'rules.toml'}:1"
    assert text.startswith("user:review:1: ")
    assert names in text


def test_of_many_names_the_first_five_are_said(tmp_path):
    (tmp_path / "rules.toml").write_text(
        "[[review]]\nnot_requester = true\napprovals = 7\nreviewers = ["
        + ", ".join(f'"u{n}"' for n in range(7))
        + "]\n"
    )
    people = {f"user:u{n}": Role.OPERATOR for n in range(7)} | {"user:z": Role.ADMIN}
    (one,) = review_findings(
        load_reviews(None, tmp_path / "rules.toml"), KnownPeople(people=people)
    )
    assert (one.code, one.fields["names"]) == (WHEN, "u0, u1, u2, u3, u4, …")
    assert (one.fields["needed"], one.fields["able"]) == ("7", "7")
