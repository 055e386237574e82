"""The hooks file: checked whole, and refused with file, line and field."""

import base64
from pathlib import Path

import pytest

from gonogo.webhooks import BadHooks, load_hooks

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
        ("hook = 3", ":1: a hooks file holds"),
        ("[[rule]]\n", ":1: a hooks file holds"),
        ("[[hook", ":"),
        ("\n\n[[hook]]\n", ":3: hook 1: name: "),
        (GOOD + "\n" + GOOD, ":6: hook 2: name: there are two hooks 'chat'"),
        (GOOD.replace('"chat"', '"a b"'), ":1: hook 1: name: "),
        (GOOD + "colour = 3\n", "hook 1: colour: "),
        (GOOD + 'events = ["asked"]\n', "hook 1: events.0: "),
        (GOOD + "events = []\n", "hook 1: events: "),
        (GOOD + "timeout = 0\n", "hook 1: timeout: "),
        (GOOD + 'insecure = "yes"\n', "hook 1: insecure: "),
        (GOOD.replace("https://chat.example/x", "chat.example"), "url: an address begins with"),
        (GOOD.replace("https://", "file://"), "url: an address begins with"),
        (GOOD.replace("chat.example/x", "a:b@chat.example"), "url: an address has no user"),
        (GOOD.replace("chat.example/x", "chat.example/x#y"), "url: an address has no user"),
        (GOOD.replace("chat.example/x", "[chat"), "url: this is no address"),
        (GOOD.replace("chat.example/x", "chat:99999"), "url: this is no address"),
        (GOOD.replace('"CHAT"', '"NONE"'), "secret_env: NONE: it is not set"),
        (GOOD.replace('"CHAT"', '"WEAK"'), "secret_env: WEAK: the secret must begin"),
        (GOOD.replace('"CHAT"', "[]"), "secret_env: "),
        (GOOD.replace('"CHAT"', str(["CHAT"] * 5)), "secret_env: "),
        (GOOD + 'links_for = ["ann"]\n', "links_for: links need the server's public address"),
    ],
)
def test_a_file_with_a_defect_is_refused_with_its_place(
    tmp_path: Path, text: str, defect: str
) -> None:
    with pytest.raises(BadHooks) as refused:
        load(tmp_path, text)

    assert str(refused.value).startswith(str(tmp_path / "hooks.toml"))
    assert defect in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_there_are_at_most_so_many_hooks(tmp_path: Path) -> None:
    with pytest.raises(BadHooks, match="at most 32"):
        load(tmp_path, "".join(GOOD.replace("chat", f"h{n}") for n in range(33)))
