"""Protected names in every spelling that some file system takes for them."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gonogo.domain.errors import ToolFailed
from gonogo.domain.paths import is_secret, write_guard
from gonogo.domain.text_safety import undrawn
from gonogo.domain.tool_calls import Access, Call, ToolClass
from gonogo.policy import Conditions, RuleText, make_rule, make_rules, verdict
from gonogo.workspace import Workspace
from plugins.nightly import examples

GUARDED = (
    ".git", ".gonogo", ".hg", ".vscode", ".ssh", ".bashrc", ".mcp.json", "Makefile", "conftest.py",
    "AGENTS.md", ".github", ".gitattributes", ".env", ".env.local", "id_rsa", "server.pem",
    "secrets", "credentials.json", "package.json", "sitecustomize.py", "Dockerfile", "compose.yml",
    "lefthook.yml", "vite.config.ts", "node_modules", ".eslintrc", "mise.toml",
)  # fmt: skip
SIGNS = {
    "i": "\u0131\u0130\uff49\u2170\U0001d422", "s": "\u017f\uff33\U0001d42c", "k": "\u212a\uff2b",
    "g": "\uff27\u210a", "e": "\u212f\u2147", "h": "\u210e", "m": "\u217f", "c": "\u217d",
    "d": "\u217e", "st": "\ufb06\ufb05", "fi": "\ufb01", ".": "",
}  # fmt: skip
"""Signs that some file system folds to letters."""
IGNORED = "\u00ad\u034f\u115f\u200b\u200d\u2060\ufe0f\ufeff\U000e0067\u180b\u3164"
"""Code points that a folder that folds its names leaves out."""


def ext4(name):
    """How ext4, f2fs and tmpfs compare names in a folder that folds them."""
    plain = "".join(c for c in name if c not in IGNORED)
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", plain).casefold())


def windows(name):
    """How NTFS and FAT do."""
    return name.upper().rstrip(". ").partition(":")[0]


def kernel_forms(name):
    """How those do that look at letters without their forms too."""
    return unicodedata.normalize("NFKD", name.upper()).casefold().replace("i\u0307", "i")


def drawn(data, name):
    """The name with some of its letters written otherwise."""
    out = []
    for sign in name:
        other = data.draw(st.sampled_from([sign, sign.upper(), *SIGNS.get(sign.lower(), "")]))
        out.append(other + data.draw(st.sampled_from(["", "", "", *IGNORED])))
    ended = data.draw(st.sampled_from(["", ".", " ", "::$DATA", ":x"]))
    form = data.draw(st.sampled_from(["NFC", "NFD", "NFKC"]))
    return unicodedata.normalize(form, "".join(out)) + ended


@pytest.mark.feature(202)
@settings(max_examples=examples(50, nightly=150), deadline=None)
@given(data=st.data(), name=st.sampled_from(GUARDED))
def test_a_name_is_guarded_in_every_spelling(data, name):
    other = drawn(data, name)
    folds = (ext4, windows, kernel_forms)

    if any(fold(other) == fold(name) for fold in folds):
        assert write_guard(other) == write_guard(name)
        assert is_secret(other) == is_secret(name)
        assert write_guard(f"a/{other}/b") == write_guard(f"a/{name}/b")


@pytest.mark.feature(202)
@pytest.mark.parametrize(("short", "guard"), [
    ("GIT~1", "deny"), ("git~2", "deny"), ("GONOGO~1", "deny"), ("VSCODE~1", "deny"),
    ("BASHRC~1", "deny"), ("MCP~1.JSO", "deny"), ("GITHUB~1", "ask"), ("PACKAG~1.JSO", "ask"),
    ("GITATT~1", "ask"), ("CLAUDE~1.MD", "ask"), ("ENV~1", "ask"), ("ENV~1.LOC", "ask"),
    ("DOCKER~1.YML", "ask"), ("COMPOS~2.YAM", "ask"), ("LEFTHO~1.YML", "ask"),
    ("JESTCO~1.JS", "ask"), ("VITECO~1.TS", "ask"), ("ESLINT~1", "ask"), ("VAGRAN~1", "ask"),
    ("AZURE-~1.YML", "ask"), ("BITBUC~1.YML", "ask"), ("APP~1.COD", "ask"), ("NODE_M~1/x", "ask"),
    ("BUILDG~1.KTS", "ask"), ("SERVER~1.KEY", "ask"), ("SERVIC~1.JSO", "ask"),
    ("TERRAF~1.TFS", "ask"),
    ("README~1.MD", None), ("a~1", None), ("HEAD~1", None),
])  # fmt: skip
def test_a_short_form_of_a_guarded_name_is_guarded_too(short, guard):
    assert write_guard(short) == guard


ASKED = make_rules([], [
    make_rule("user:1", RuleText(decision="deny", tool="write_file", path="caf\u00e9/**")),
    make_rule("user:2", RuleText(decision="ask", tool="write_file", path="src/app.py")),
    make_rule("user:3", RuleText(decision="allow", tool="write_file", path="**")),
    make_rule("user:4", RuleText(decision="allow", tool="delete_file", path="src/app.py")),
])  # fmt: skip


@pytest.mark.feature(202)
@pytest.mark.parametrize(("tool", "path", "found"), [
    ("write_file", "caf\u00e9/x", "deny"), ("write_file", "cafe\u0301/x", "deny"),
    ("write_file", "CAF\u00c9/X", "deny"), ("write_file", "Src/APP.py", "ask"),
    ("write_file", "src/app.pyc", "allow"), ("delete_file", "SRC/app.py", "ask"),
    ("delete_file", "src/app.py", "allow"),
])  # fmt: skip
def test_a_rule_forbids_in_every_spelling_and_allows_in_its_own_alone(tool, path, found):
    access = Access(writes=(path,)) if tool == "write_file" else Access(deletes=(path,))
    call = Call(tool=tool, tool_class=ToolClass.OTHER, agent="coder", arguments={}, access=access)

    assert verdict(call, ASKED, Conditions(workspace="/w"), None).decision == found


@pytest.mark.feature(202)
def test_a_folder_that_folds_its_names_opens_nothing_by_another_spelling(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("mine\n")
    if not (tmp_path / ".GIT").exists():
        pytest.skip("the file system here tells .git and .GIT apart")
    workspace = Workspace(tmp_path)
    for path in (".GIT/config", ".Git/hooks/x", ".g\u0131t/config", ".gi\ufe0ft/config"):
        with pytest.raises(ToolFailed):
            workspace.write(path, b"theirs\n", base="any")
    assert [path.name for path in tmp_path.iterdir()] == [".git"]
    assert (tmp_path / ".git" / "config").read_text() == "mine\n"


def test_what_is_drawn_as_nothing_is_in_no_name_that_a_tool_takes(tmp_path):
    for sign in IGNORED:
        assert undrawn(sign) or unicodedata.category(sign) == "Cf"
        with pytest.raises(ToolFailed, match="mislead"):
            Workspace(tmp_path).normal(f".g{sign}it/config")
