"""Instruction files and skills are read as tools read: nothing leads out, all is bounded."""

import os
from pathlib import Path

import pytest

from gonogo.domain.errors import ToolFailed
from gonogo.workspace import InstructionReader, Workspace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


def put(folder: Path, path: str, text: str | bytes = "text\n") -> None:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())


def paths(reader: InstructionReader, folder: Path | None, *touched: str) -> list[str]:
    return [file.path for file in reader.look(folder, touched).files]


def test_the_files_of_the_root_are_found_in_a_fixed_order_after_the_users_own(tmp_path, folder):
    for path in (
        "GEMINI.md", "CLAUDE.md", "AGENTS.md", ".github/copilot-instructions.md", "README.md",
        ".cursor/rules/deep/b.mdc", ".cursor/rules/a.mdc", ".cursor/rules/a.md",
    ):  # fmt: skip
        put(folder, path, "---\nalwaysApply: true\n---\n\nbody\n" if ".mdc" in path else "text\n")
    put(tmp_path, "own/AGENTS.md", "mine\n")
    reader = InstructionReader(own=tmp_path / "own")

    found = reader.look(folder)
    assert [(file.source, file.path) for file in found.files] == [
        ("user", "AGENTS.md"),
        *(("repository", path) for path in (
            "AGENTS.md", "CLAUDE.md", "GEMINI.md", ".github/copilot-instructions.md",
            ".cursor/rules/a.mdc", ".cursor/rules/deep/b.mdc",
        )),
    ]  # fmt: skip
    assert [file.text for file in found.files[-2:]] == ["body", "body"]
    assert found.files[1].size == 5
    # What `sha256sum` says of it.
    assert found.files[1].sha256 == (
        "b9e68e1bea3e5b19ca6b2f98b73a54b73daafaa250484902e09982e07a12e733"
    )
    assert paths(reader, None) == ["AGENTS.md"]
    assert reader.look(None).files[0].source == "user"


def test_off_there_is_nothing(tmp_path, folder):
    put(folder, "AGENTS.md")
    put(folder, ".agents/skills/a/SKILL.md")
    reader = InstructionReader(own=folder, on=False)

    found = reader.look(folder, ["a/b"])
    assert (found.files, found.skills, found.left_out) == ((), (), {})
    with pytest.raises(ToolFailed, match=r"^There is no skill 'a'$"):
        reader.skill(Workspace(folder), "a")


def test_those_further_down_count_for_what_lies_below_them(folder):
    for path in ("AGENTS.md", "a/AGENTS.md", "a/CLAUDE.md", "a/b/AGENTS.md", "c/AGENTS.md"):
        put(folder, path)
    reader = InstructionReader()

    assert paths(reader, folder) == ["AGENTS.md"]
    assert paths(reader, folder, "a/b/x.py", "a/y.py") == [
        "AGENTS.md", "a/AGENTS.md", "a/CLAUDE.md", "a/b/AGENTS.md",
    ]  # fmt: skip
    assert paths(reader, folder, "c") == ["AGENTS.md", "c/AGENTS.md"]
    assert paths(reader, folder, ".", "") == ["AGENTS.md"]
    many = [f"x{n}/y" for n in range(200)]
    assert paths(reader, folder, *many, "c") == ["AGENTS.md"]


def test_a_rule_of_an_editor_is_told_named_or_left_alone(folder):
    put(folder, ".cursor/rules/always.mdc", "---\nalwaysApply: true\ndescription: d\n---\nA\n")
    put(folder, ".cursor/rules/globs.mdc", "---\nglobs: *.ts\n---\nG\n")
    put(folder, ".cursor/rules/both.mdc", "---\nglobs: *.ts\ndescription: about b\n---\nB\n")
    put(folder, ".cursor/rules/asked.mdc", "---\ndescription: about c\n---\nC\n")
    put(folder, ".cursor/rules/by_hand.mdc", "H\n")
    reader = InstructionReader()

    def told(*touched: str) -> dict[str, str]:
        found = reader.look(folder, touched).files
        return {Path(file.path).stem: file.offered or file.text for file in found}

    assert told() == {"always": "A", "both": "about b", "asked": "about c"}
    assert told("x/y.ts") == {"always": "A", "globs": "G", "both": "B", "asked": "about c"}


def test_what_no_tool_would_read_unasked_is_left_out_and_said(tmp_path, folder):
    put(tmp_path, "outside.md", "outside\n")
    put(folder, ".env", "SECRET=1\n")
    put(folder, "docs/real.md")
    (folder / "AGENTS.md").symlink_to("../outside.md")
    (folder / "CLAUDE.md").symlink_to("docs/real.md")
    (folder / "GEMINI.md").symlink_to(".env")
    os.mkfifo(folder / "fifo")
    (folder / ".github").mkdir()
    (folder / ".github/copilot-instructions.md").symlink_to("../fifo")
    put(folder, "a/AGENTS.md", b"x" * 300_000)
    put(folder, "b/AGENTS.md")
    os.link(folder / "b/AGENTS.md", tmp_path / "second name")
    (folder / "c/AGENTS.md").mkdir(parents=True)
    put(folder, "d/AGENTS.md")
    reader = InstructionReader(barred=lambda path: path == "d/AGENTS.md")

    found = reader.look(folder, ["a", "b", "c", "d"])
    assert [file.path for file in found.files] == ["CLAUDE.md"]
    assert found.left_out == {
        "AGENTS.md": "A link leads out of the workspace",
        "GEMINI.md": "only a person can allow reading it",
        ".github/copilot-instructions.md": "'fifo' is not a regular file",
        "a/AGENTS.md": "'a/AGENTS.md' has more than 262144 bytes",
        "b/AGENTS.md": "'b/AGENTS.md' has a second name, perhaps outside the workspace",
        "c/AGENTS.md": "'c/AGENTS.md' is not a regular file",
        "d/AGENTS.md": "only a person can allow reading it",
    }


def test_a_name_that_misleads_is_never_told(folder):
    put(folder, ".cursor/rules/a\u202eb.mdc", "---\nalwaysApply: true\n---\nx\n")
    put(folder, ".cursor/rules/a\nb.mdc", "---\nalwaysApply: true\n---\nx\n")
    put(folder, ".agents/skills/a b/SKILL.md")

    found = InstructionReader().look(folder)
    assert (found.files, found.skills) == ((), ())


def test_the_users_own_are_read_whatever_they_link_to_but_not_without_bound(tmp_path, folder):
    put(tmp_path, "dotfiles/AGENTS.md", "mine\n")
    own = tmp_path / "own"
    (own / "skills/s").mkdir(parents=True)
    (own / "AGENTS.md").symlink_to(tmp_path / "dotfiles/AGENTS.md")
    reader = InstructionReader(own=own)
    assert reader.look(None).files[0].text == "mine"

    (own / "AGENTS.md").unlink()
    put(own, "AGENTS.md", b"x" * 300_000)
    assert reader.look(None).left_out == {str(own / "AGENTS.md"): "it has more than 262144 bytes"}
    (own / "AGENTS.md").unlink()
    os.mkfifo(own / "AGENTS.md")
    assert reader.look(None).left_out == {str(own / "AGENTS.md"): "it is not a regular file"}
    (own / "AGENTS.md").unlink()
    assert reader.look(None) == InstructionReader().look(None)


def test_skills_are_found_by_their_folder_and_the_users_own_win(tmp_path, folder):
    put(folder, ".agents/skills/b/SKILL.md", "---\nname: other\ndescription: of b\n---\nB\n")
    put(folder, ".claude/skills/b/SKILL.md", "---\ndescription: hidden\n---\nhidden\n")
    put(folder, ".claude/skills/c/SKILL.md", "C\n")
    put(folder, ".claude/skills/no/README.md")
    put(folder, ".agents/skills/mine/SKILL.md", "---\ndescription: forged\n---\nforged\n")
    put(tmp_path, "own/skills/mine/SKILL.md", "---\ndescription: my own\n---\nM\n")
    (folder / ".claude/skills/linked").symlink_to("../../.agents/skills/b")
    reader = InstructionReader(own=tmp_path / "own", barred=lambda path: "/c/" in path)

    found = reader.look(folder)
    assert [(skill.name, skill.source, skill.description) for skill in found.skills] == [
        ("mine", "user", "my own"), ("b", "repository", "of b"), ("linked", "repository", "of b"),
    ]  # fmt: skip
    assert found.left_out == {".claude/skills/c/SKILL.md": "only a person can allow reading it"}

    workspace = Workspace(folder)
    assert reader.skill(workspace, "mine").path is None
    assert reader.skill(workspace, "mine").data.endswith(b"M\n")
    assert reader.skill(workspace, "b").path == ".agents/skills/b/SKILL.md"
    assert reader.skill(workspace, "linked").path == ".agents/skills/b/SKILL.md"
    assert InstructionReader().skill(workspace, "mine").data.endswith(b"forged\n")


@pytest.mark.parametrize("name", ["none", "../b", "b/../b", "", "a b", ".", "\u0435vil"])
def test_a_skill_that_is_not_there_is_said_so(folder, name):
    put(folder, ".agents/skills/b/SKILL.md")

    with pytest.raises(ToolFailed) as failure:
        InstructionReader().skill(Workspace(folder), name)
    assert failure.value.kind == "skill_not_found"
    assert str(failure.value) == f"There is no skill {name!a}"


@pytest.mark.parametrize("target", ["../../../.env", "../../../notes.md", "/etc/passwd"])
def test_a_skill_that_is_a_link_to_something_else_is_refused(folder, target):
    put(folder, ".env", "SECRET=1\n")
    put(folder, "notes.md")
    (folder / ".agents/skills/b").mkdir(parents=True)
    (folder / ".agents/skills/b/SKILL.md").symlink_to(target)

    with pytest.raises(ToolFailed) as failure:
        InstructionReader().skill(Workspace(folder), "b")
    assert failure.value.kind == "symlink_escape"
    if not target.startswith("/"):
        assert (
            str(failure.value)
            == "'.agents/skills/b/SKILL.md' is a link to a file that is not a skill"
        )


def test_a_file_of_just_the_size_that_is_read_is_read(tmp_path, folder):
    put(folder, "AGENTS.md", b"x" * 262_144)
    put(tmp_path, "own/AGENTS.md", b"y" * 262_144)
    put(tmp_path, "own/skills/s/SKILL.md", b"z" * 262_145)
    reader = InstructionReader(own=tmp_path / "own")

    found = reader.look(folder)
    assert [(file.source, file.size) for file in found.files] == [
        ("user", 262_144), ("repository", 262_144),
    ]  # fmt: skip
    assert found.skills == ()


def test_as_many_folders_rules_and_skills_count_as_may_be(folder):
    for number in range(101):
        put(folder, f"{number:03}/AGENTS.md")
        put(folder, f".cursor/rules/{number:03}.mdc", "---\nalwaysApply: true\n---\nx\n")
        put(folder, f".claude/skills/s{number:03}/SKILL.md")
    touched = [f"{number:03}/x" for number in range(101)]

    found = InstructionReader().look(folder, touched)
    every = [file.path for file in found.files]
    assert every == [
        *(f".cursor/rules/{number:03}.mdc" for number in range(64)),
        *(f"{number:03}/AGENTS.md" for number in range(100)),
    ]
    assert [skill.name for skill in found.skills] == [f"s{number:03}" for number in range(64)]
