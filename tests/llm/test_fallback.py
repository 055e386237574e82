"""Several models in the place of one: who is asked when, who rests how long, and what is told when
none answers."""

import pytest

from gonogo.domain.errors import InternalFailure, ModelFailed, ModelNotConfigured
from gonogo.domain.failures import is_away, quota_pause
from gonogo.domain.tool_calls import Reply
from gonogo.llm import FallbackModel, ModelChoice
from gonogo.llm.choice import _seconds, all_failed, is_for_another

pytestmark = pytest.mark.anyio
NAMES = ("a", "b", "c")
DOWN = ModelFailed("a answered 503", http_status=503, transient=True)
GONE = ModelFailed("a failed: Connection error.", transient=True, sent=False)
NO_KEY = ModelNotConfigured("a needs a key")
LATER = ModelFailed("a answered 429", http_status=429, retry_after=3_600.0, transient=True)


class Fake:
    """Fails as it is told, and says its name."""

    def __init__(self, name: str, asked: list[str]) -> None:
        self.name, self.asked = name, asked
        self.error: InternalFailure | None = None
        self.says = ""

    async def request(self, request, on_text) -> Reply:
        del request
        self.asked.append(self.name)
        if self.says:
            on_text(self.says)
        if self.error:
            raise self.error
        return Reply(text=self.name, model=self.name)

    async def aclose(self) -> None: ...


class Several:
    """Three models, a clock, and the model that stands for them."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.models = {name: Fake(name, self.asked) for name in NAMES}
        self.now = 1_000.0
        self.rests = {}
        self.shown = ""
        self.one = self.list_of(*NAMES)

    def list_of(self, *names: str) -> FallbackModel:
        choices = [ModelChoice(name=name) for name in names]
        return FallbackModel(
            choices, lambda c: self.models[c.name], self.rests, clock=lambda: self.now
        )

    def show(self, text: str) -> None:
        self.shown += text

    async def ask(self, request, of: FallbackModel | None = None) -> Reply:
        self.asked.clear()
        return await (of or self.one).request(request, self.show)


@pytest.fixture
def several():
    return Several()


async def test_the_first_is_asked_as_long_as_it_answers(several, asked):
    reply = await several.ask(asked())
    assert (reply.model, reply.passed, several.asked) == ("a", "", ["a"])
    assert several.one.name == "a"
    await several.one.aclose()


@pytest.mark.parametrize("error", [DOWN, GONE, NO_KEY, LATER])
async def test_the_next_is_asked_and_what_was_wrong_is_told(several, asked, error, caplog):
    several.models["a"].error = error
    reply = await several.ask(asked())
    assert (reply.model, reply.passed, several.asked) == ("b", str(error), ["a", "b"])
    assert "passed" not in reply.model_dump()
    seconds = {str(LATER): 3_600, str(NO_KEY): 600}.get(str(error), 60)
    assert caplog.messages == [f"{error}; the next model is asked, this one not for {seconds} s"]
    # It rests, for other lists that it is in too.
    assert (await several.ask(asked())).passed == str(error)
    assert several.asked == ["b"]
    assert (await several.ask(asked(), several.list_of("c", "a"))).model == "c"
    assert (await several.ask(asked(), several.list_of("a", "c"))).model == "c"


async def test_a_model_rests_longer_each_time_and_is_the_first_again_once_it_answers(
    several, asked
):
    several.models["a"].error = DOWN
    await several.ask(asked())
    for seconds in (60, 120, 240, 480, 600, 600):
        several.now += seconds - 1
        await several.ask(asked())
        assert several.asked == ["b"]
        several.now += 1
        await several.ask(asked())
        assert several.asked == ["a", "b"]
    several.models["a"].error = None
    several.now += 600
    reply = await several.ask(asked())
    assert (reply.model, reply.passed) == ("a", "")
    assert several.rests == {}


@pytest.mark.parametrize(("error", "seconds"), [(LATER, 3_600), (NO_KEY, 600)])
async def test_a_quota_is_waited_for_until_its_reset_and_what_is_hopeless_for_long(
    several, asked, error, seconds
):
    several.models["a"].error = error
    await several.ask(asked())
    several.now += seconds - 1
    await several.ask(asked())
    assert several.asked == ["b"]
    several.now += 1
    await several.ask(asked())
    assert several.asked == ["a", "b"]


async def test_a_short_quota_rests_no_shorter_than_any_failure(several, asked):
    several.models["a"].error = ModelFailed("a", http_status=429, retry_after=1.0, transient=True)
    await several.ask(asked())
    several.now += 59
    await several.ask(asked())
    assert several.asked == ["b"]


async def test_those_that_rest_are_asked_after_the_others_where_those_fail_too(several, asked):
    several.models["a"].error = DOWN
    await several.ask(asked())
    several.models["b"].error = several.models["c"].error = GONE
    several.models["a"].error = None
    reply = await several.ask(asked())
    assert (reply.model, several.asked) == ("a", ["b", "c", "a"])


@pytest.mark.parametrize("status", [400, 413, 422, None])
async def test_what_every_model_would_refuse_is_told_at_once(several, asked, status):
    several.models["a"].error = ModelFailed("too much", http_status=status)
    with pytest.raises(ModelFailed, match="too much"):
        await several.ask(asked())
    assert several.asked == ["a"]
    assert several.rests == {}


@pytest.mark.parametrize("status", [401, 402, 403, 404, 429])
def test_who_lets_us_not_in_or_has_no_quota_left_is_passed_over(status):
    assert is_for_another(ModelFailed("no", http_status=status))


async def test_text_that_was_shown_is_not_shown_again_by_the_next(several, asked):
    several.models["a"].says, several.models["a"].error = "The ans", DOWN
    several.models["b"].says = "The answer"
    await several.ask(asked())
    assert several.shown == "The answer"


def test_the_smallest_window_that_is_known_counts():
    windows = {"a": None, "b": 9_000, "c": 8_000}

    def opened(choice):
        if choice.name == "c":
            raise NO_KEY
        fake = Fake(choice.name, [])
        fake.window = windows[choice.name]
        return fake

    def window(*choices):
        return FallbackModel(choices, opened, {}).window

    a, b, c = (ModelChoice(name=name) for name in NAMES)
    # Of one that cannot be opened the file may tell.
    told = ModelChoice(name="c", window=7_000)
    assert [window(a, b), window(a, b, c), window(b, told), window(a, c)] == [
        9_000, 9_000, 7_000, None,
    ]  # fmt: skip
    assert FallbackModel([ModelChoice()], opened, {}).name == "the configured model"


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 60.0), (2, 120.0), (4, 480.0), (5, 600.0), (2_000, 600.0)]
)
def test_a_model_rests_twice_as_long_each_time_up_to_a_bound(failures, seconds):
    assert _seconds(DOWN, failures) == seconds
    assert _seconds(ModelFailed("x", http_status=429, transient=True), failures) == seconds
    assert _seconds(ModelFailed("x", http_status=401), failures) == 600.0
    assert _seconds(LATER, failures) == 3_600.0


def test_what_none_answers_means_the_most_hopeful_of_it():
    refused = ModelFailed("c answered 401", http_status=401)
    soon = ModelFailed("b answered 429", http_status=429, retry_after=90.0, transient=True)
    waits = all_failed([LATER, refused, DOWN])
    assert is_away(waits)
    assert str(waits) == "a answered 429; c answered 401; a answered 503"
    quota = all_failed([refused, LATER, soon])
    assert quota_pause(quota) == 90.0
    assert not is_away(quota)
    nothing = all_failed([NO_KEY, refused])
    assert isinstance(nothing, ModelFailed)
    assert str(nothing) == "a needs a key; c answered 401"
    assert (nothing.transient, nothing.http_status, nothing.retry_after) == (False, 401, None)
    assert all_failed([NO_KEY, NO_KEY]) is NO_KEY
    assert all_failed([GONE]) is GONE
    assert (all_failed([GONE, GONE]).sent, all_failed([GONE, DOWN]).sent) == (False, True)
