"""Whether rules of review leave somebody to decide, by who there is.

What a file says of itself is refused when it is read; that it asks for more people than there are
is only a finding, since people come and go.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gonogo.domain.findings import Finding, FindingSeverity
from gonogo.domain.identity import Principal, Role
from gonogo.domain.reviews import Review, reviewer_name, strictest
from gonogo.policy.reviews import ReviewRule, Reviews

_PROVIDER = "oidc:"
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Who could ask and decide."""

    people: Mapping[str, Role]
    """Ids of principals, each with the best role of their tokens."""
    others: bool = False
    """An identity provider may bring people whom nobody has seen yet."""

    def someone(self, principal_id: str) -> bool:
        """Whether somebody has that id, as far as one knows."""
        return principal_id in self.people or (self.others and principal_id.startswith(_PROVIDER))

    def principals(self) -> Iterator[Principal]:
        """Those whose roles are known."""
        for who, role in self.people.items():
            yield Principal(id=who, name=reviewer_name(who), role=role)


def review_findings(reviews: Reviews, known: Known) -> list[Finding]:
    """What is to be known of the rules of review before they are counted on."""
    return [found for rule in reviews.rules for found in _of_rule(rule, reviews, known)]


def _of_rule(rule: ReviewRule, reviews: Reviews, known: Known) -> Iterator[Finding]:
    review = rule.review
    named = [("reviewers", who) for who in review.reviewers or ()]
    named += [("escalate_to", who) for who in review.escalate_to]
    for field, who in named:
        fields = {"field": field, "name": reviewer_name(who), "role": review.role}
        if not known.someone(who):
            yield _finding(rule, "review_nobody", fields)
        elif known.people.get(who, Role.ADMIN) < Role[review.role.upper()]:
            yield _finding(rule, "review_weak", fields)
    yield from _too_few(rule, reviews, known)


def _too_few(rule: ReviewRule, reviews: Reviews, known: Known) -> Iterator[Finding]:
    """Who asks may not approve; so how many can is a matter of who asks."""
    held = strictest([other.review for other in reviews.rules if rule.within(other)]).escalated()
    if known.others and (held.reviewers is None or held.also_role is not None):
        return
    asking = [who for who in known.principals() if who.role >= Role.OPERATOR]
    able = {who.name: _able(held, who, known) for who in asking}
    short = [name for name, count in able.items() if count < held.needed]
    fields = {"needed": str(held.needed), "able": str(max(able.values(), default=0))}
    if len(short) == len(able):
        yield _finding(rule, "review_too_few", fields)
    elif short:
        more = ["…"] if len(short) > _MOST_NAMED else []
        fields["names"] = ", ".join([*short[:_MOST_NAMED], *more])
        yield _finding(rule, "review_too_few_when", fields)


def _able(held: Review, asks: Principal, known: Known) -> int:
    """How many could approve what somebody asks for in their own session."""
    everybody = [
        who
        for who in known.principals()
        if held.admits(who) and held.has_role(who) and not held.bars(who, asks.id)
    ]
    if held.reviewers is None:
        return sum(who.role >= Role.ADMIN or who.id == asks.id for who in everybody)
    coming = {*held.reviewers, *held.also} - set(known.people)
    return len(everybody) + sum(map(known.someone, coming))


def _finding(rule: ReviewRule, code: str, fields: Mapping[str, str]) -> Finding:
    named = {"rule": rule.name, "where": rule.where, **fields}
    return Finding(severity=FindingSeverity.WARNING, code=code, fields=named)
