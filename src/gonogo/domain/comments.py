"""Comments on a plan that waits for a person, and the answers that its planner owes.

A comment decides nothing. A plan that is sent back with comments comes again as another revision,
which has an answer to each of them; the answers are the agent's words, shown as such.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from gonogo.domain.errors import InvalidMessage, InvalidPlan
from gonogo.domain.records import Comment

LONGEST = 4_000
"""Characters of a comment, and of an answer."""
MOST_OPEN = 100
"""Comments on one plan that have no answer yet."""


def checked_content(content: str) -> str:
    """What a person wrote, without blanks around it.

    Raises:
        InvalidMessage: there is nothing in it, or too much.
    """
    said = content.strip()
    if not said:
        raise InvalidMessage("content: a comment says something")
    if len(said) > LONGEST:
        raise InvalidMessage(f"content: at most {LONGEST} characters, not {len(said)}")
    return said


def read_answers(raw: Any, wanted: Sequence[str]) -> dict[str, str]:  # noqa: ANN401 - a model's
    """The planner's answers, by the ids of the comments.

    Args:
        raw: `[{comment_id, answer}]`, as the model sent it.
        wanted: The comments that it was asked to answer.

    Raises:
        InvalidPlan: a comment has no answer or two, an answer no comment; the text names them.
    """
    found: dict[str, str] = {}
    for item in _objects(raw):
        key, answer = item.get("comment_id"), item.get("answer")
        if not isinstance(key, str) or key not in wanted:
            raise InvalidPlan(f"answers: there is no comment {key!r} to answer{_choices(wanted)}")
        if key in found:
            raise InvalidPlan(f"answers: comment {key} is answered twice")
        found[key] = _answer(key, answer)
    left = [key for key in wanted if key not in found]
    if left:
        raise InvalidPlan(
            f"answers: comments without an answer: {', '.join(left)};"
            " each needs {comment_id, answer}"
        )
    return found


def standing_comments(comments: Sequence[Comment], revision: int) -> list[dict[str, Any]]:
    """The comments that are shown with a revision: those it answers, and those that are open."""
    return [
        comment_facts(comment)
        for comment in comments
        if comment.answer is None or comment.answered_revision == revision
    ]


def comment_facts(comment: Comment) -> dict[str, Any]:
    """A comment as clients are told of it; what it does not have is absent."""
    found = {
        "comment_id": comment.id, "author": comment.author, "revision": comment.revision,
        "subtask_id": comment.subtask_id, "content": comment.content, "answer": comment.answer,
        "answered_revision": comment.answered_revision,
    }  # fmt: skip
    return {name: value for name, value in found.items() if value is not None}


def _objects(raw: Any) -> list[Mapping[str, Any]]:  # noqa: ANN401
    if raw is None:
        return []
    if not isinstance(raw, list):
        raise InvalidPlan("answers: a list of {comment_id, answer} is needed")
    items = cast("list[Any]", raw)
    if not all(isinstance(item, dict) for item in items):
        raise InvalidPlan("answers: each one is an object {comment_id, answer}")
    return items


def _answer(key: str, answer: Any) -> str:  # noqa: ANN401
    if not isinstance(answer, str) or not answer.strip():
        raise InvalidPlan(f"answers: the answer to comment {key} is empty")
    if len(answer) > LONGEST:
        raise InvalidPlan(f"answers: the answer to comment {key} has over {LONGEST} characters")
    return answer.strip()


def _choices(wanted: Collection[str]) -> str:
    return f"; those there are: {', '.join(wanted)}" if wanted else ""
