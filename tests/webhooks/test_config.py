"""The hooks file: checked whole, and refused with file, line and field."""

import base64
from pathlib import Path

import pytest

from gonogo.webhooks import BadHooks, Hook, load_hooks

ENVIRONMENT = {
    "CHAT": "whsec_" + base64.b64encode(b"k" * 32).decode(),
    "OLD": "whsec_" + base64.b64encode(b"o" * 32).decode(),
    "WEAK": "hunter2",
}
GOOD = '[[hook]]\nname = "chat"\nurl = "https://chat.example/x"\nsecret_env = "CHAT"\n'


def load(tmp_path: Path, text: str, **more: bool):
    path = tmp_path / "hooks.toml"
    path.write_text(text)
    return load_hooks(path, ENVIRONMENT, **more)


def test_no_file_is_no_hooks(tmp_path: Path) -> None:
    assert load_hooks(tmp_path / "none.toml", {}) == {}


def test_a_hook_hears_of_everything_unless_it_says_of_what(tmp_path: Path) -> None:
    hook = load(tmp_path, GOOD)["chat"]
    picky = load(tmp_path, GOOD + 'events = ["resolved"]\nkinds = ["plan"]\n')["chat"]

    assert (hook.secrets, hook.timeout) == ((b"k" * 32,), 10)
    assert (hook.name, hook.url) == ("chat", "https://chat.example/x")
    assert hook.events == ("requested", "warning", "resolved", "escalated")
    assert (hook.kinds, hook.links_for) == (None, ())
    assert hook.wants("requested", "tool")
    assert hook.wants("escalated", "deploy")
    assert picky.wants("resolved", "plan")
    assert not picky.wants("resolved", "tool")
    assert not picky.wants("requested", "plan")


def test_two_secrets_sign_while_one_is_changed(tmp_path: Path) -> None:
    hook = load(tmp_path, GOOD.replace('"CHAT"', '["CHAT", "OLD"]'))["chat"]

    assert hook.secrets == (b"k" * 32, b"o" * 32)


def test_neither_the_secret_nor_the_address_is_in_what_is_logged_of_a_hook(tmp_path: Path) -> None:
    shown = repr(load(tmp_path, GOOD))

    assert "kkk" not in shown
    assert "chat.example" not in shown


@pytest.mark.parametrize("host", ["127.0.0.1:9", "[::1]", "localhost", "127.1.2.3"])
def test_this_machine_is_told_without_encryption(tmp_path: Path, host: str) -> None:
    assert load(tmp_path, GOOD.replace("https://chat.example", f"http://{host}"))


def test_another_machine_is_told_without_encryption_if_the_operator_insists(tmp_path: Path) -> None:
    plain = GOOD.replace("https:", "http:")

    assert load(tmp_path, plain + "insecure = true\n")
    with pytest.raises(BadHooks, match="url: http:// would show"):
        load(tmp_path, plain)


@pytest.mark.parametrize(
    ("text", "defect"),
    [
        ("hook = 3", ":1: a hooks file can hold only [[hook]] tables"),
        ("[[rule]]\n", ":1: a hooks file can hold only [[hook]] tables"),
        ("\n\n[[hook]]\n", ":3: hook 1: name: Field required"),
        (GOOD + "\n" + GOOD, ":6: hook 2: name: there are two hooks 'chat'"),
        (
            GOOD.replace('"chat"', '"a b"'),
            ":1: hook 1: name: String should match pattern '^[A-Za-z0-9_.-]{1,64}$'",
        ),
        (
            GOOD.replace('"chat"', f'"{"a" * 65}"'),
            ":1: hook 1: name: String should match pattern '^[A-Za-z0-9_.-]{1,64}$'",
        ),
        (
            GOOD.replace("/x", "/" + "x" * 1_980),
            ":1: hook 1: url: String should have at most 2000 characters",
        ),
        (GOOD + "colour = 3\n", ":1: hook 1: colour: Extra inputs are not permitted"),
        (
            GOOD + 'events = ["asked"]\n',
            ":1: hook 1: events.0: Input should be 'requested', 'warning', 'resolved' or "
            "'escalated'",
        ),
        (GOOD + "timeout = 0\n", ":1: hook 1: timeout: Input should be greater than 0"),
        (
            GOOD + "timeout = 60.1\n",
            ":1: hook 1: timeout: Input should be less than or equal to 60",
        ),
        (GOOD + 'insecure = "yes"\n', ":1: hook 1: insecure: Input should be a valid boolean"),
        (
            GOOD.replace("https://chat.example/x", "chat.example"),
            ":1: hook 1: url: an address must begin with https:// and name a host",
        ),
        (
            GOOD.replace("https://", "http://"),
            ":1: hook 1: url: http:// would show the questions to the network; use "
            "https://, or set insecure = true",
        ),
        (
            GOOD.replace("chat.example/x", "a:b@chat.example"),
            ":1: hook 1: url: an address must not have a user, a password or a fragment",
        ),
        (GOOD.replace("chat.example/x", "chat:99999"), ":1: hook 1: url: this is not an address"),
        (GOOD.replace('"CHAT"', '"NONE"'), ":1: hook 1: secret_env: NONE: it is not set"),
        (
            GOOD.replace('"CHAT"', '"WEAK"'),
            ":1: hook 1: secret_env: WEAK: the secret must begin with whsec_",
        ),
        (
            GOOD + 'links_for = ["ann"]\n',
            ":1: hook 1: links_for: links need this server's public address: set GONOGO_PUBLIC_URL",
        ),
    ],
)
def test_a_file_with_a_defect_is_refused_with_its_place(
    tmp_path: Path, text: str, defect: str
) -> None:
    with pytest.raises(BadHooks) as refused:
        load(tmp_path, text)

    assert str(refused.value) == f"{tmp_path / 'hooks.toml'}{defect}"


@pytest.mark.parametrize(
    ("text", "defect"),
    [
        ("[[hook", ": "),
        (GOOD + "events = []\n", ":1: hook 1: events: "),
        (GOOD.replace("https://", "file://"), ":1: hook 1: url: an address must begin with"),
        (
            GOOD.replace("chat.example/x", "chat.example/x#y"),
            ":1: hook 1: url: an address must not have",
        ),
        (GOOD.replace("chat.example/x", "[chat"), ":1: hook 1: url: this is not an address"),
        (GOOD.replace('"CHAT"', "[]"), ":1: hook 1: secret_env: "),
        (GOOD.replace('"CHAT"', str(["CHAT"] * 5)), ":1: hook 1: secret_env: "),
        (GOOD + 'kinds = [""]\n', ":1: hook 1: kinds.0: "),
        (GOOD + f'kinds = ["{"k" * 201}"]\n', ":1: hook 1: kinds.0: "),
        (GOOD + f"links_for = {['ann'] * 51}\n", ":1: hook 1: links_for: "),
    ],
)
def test_other_defects_are_refused_with_their_place_too(
    tmp_path: Path, text: str, defect: str
) -> None:
    with pytest.raises(BadHooks) as refused:
        load(tmp_path, text, links=True)

    assert str(refused.value).startswith(f"{tmp_path / 'hooks.toml'}{defect}")


def test_everything_of_a_hook_may_be_as_large_as_is_said(tmp_path: Path) -> None:
    name, kind, url = "a" * 64, "k" * 200, "https://chat.example/".ljust(2_000, "x")
    text = (
        f'[[hook]]\nname = "{name}"\nurl = "{url}"\nsecret_env = {["CHAT"] * 4}\n'
        f'kinds = ["{kind}"]\nlinks_for = {["ann"] * 50}\ntimeout = 60\nevents = ["warning"]\n'
    )

    assert load(tmp_path, text, links=True) == {
        name: Hook(
            name=name,
            url=url,
            secrets=(b"k" * 32,) * 4,
            events=("warning",),
            kinds=(kind,),
            links_for=("ann",) * 50,
            timeout=60,
        )
    }
    many = "".join(GOOD.replace("chat", f"h{n}") for n in range(32))
    assert len(load(tmp_path, many)) == 32


def test_there_are_at_most_so_many_hooks(tmp_path: Path) -> None:
    with pytest.raises(
        BadHooks, match=r"hooks\.toml:1: there can be at most 32 \[\[hook\]\] tables$"
    ):
        load(tmp_path, "".join(GOOD.replace("chat", f"h{n}") for n in range(33)))
