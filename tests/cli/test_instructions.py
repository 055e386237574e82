"""`gonogo instructions`: what agents would be told of a folder, without a runtime."""

import json
from pathlib import Path

import pytest


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for path, text in {
        "AGENTS.md": "Use tabs.\x1b[31m\n", "api/AGENTS.md": "Be strict.\n",
        ".agents/skills/ship/SKILL.md": "---\ndescription: How to ship.\n---\nShip.\n",
    }.items():  # fmt: skip
        file = tmp_path / "project" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "project/GEMINI.md").symlink_to("/etc/passwd")
    return tmp_path / "project"


def test_the_files_of_a_folder_are_listed_with_what_agents_are_told(gonogo, project):
    done = gonogo("instructions", "-C", str(project))

    assert done.returncode == 0
    first, second, left_out, *rest = done.stdout.splitlines()
    assert first.startswith("skills  skills  whole  18 B  sha256 ")
    assert second.startswith("AGENTS.md  repository  whole  15 B  sha256 ")
    assert left_out == "GEMINI.md is left out: The link 'GEMINI.md' leads out of the workspace"
    assert rest[1] == "This is what agents see:"
    assert {"| ship: How to ship.", "| Use tabs.\\x1b[31m"} <= set(rest)
    assert "api/AGENTS.md" not in done.stdout


def test_as_json_with_the_files_that_an_agent_would_have_touched(gonogo, project):
    told = json.loads(gonogo("instructions", "api/app.py", "--json", cwd=project).stdout)

    assert told["on"] is True
    assert [file["path"] for file in told["files"]] == ["skills", "AGENTS.md", "api/AGENTS.md"]
    assert told["skills"] == [
        {
            "name": "ship", "source": "repository", "path": ".agents/skills/ship/SKILL.md",
            "description": "How to ship.",
        }
    ]  # fmt: skip
    assert [each["path"] for each in told["left_out"]] == ["GEMINI.md"]
    assert "| Be strict.\n" in told["content"]


def test_where_there_are_none_and_where_they_are_off_it_is_said(gonogo, project):
    none = gonogo("instructions", "-C", str(project / "api/.."), env={"GONOGO_INSTRUCTIONS": "off"})
    empty = gonogo("instructions", "-C", str(project.parent), env={"GONOGO_LOCALE": "ru"})

    assert none.stdout.startswith("GONOGO_INSTRUCTIONS is off: ")
    assert empty.stdout == "Файлов инструкций и навыков здесь нет.\n"


SKILLS = "dac1fdd6ce719578b65b163caf423c9eef84886e7e51e965a44d7e0e4f94e3c5"
AGENTS = "f7196b26bf656e5705aad236ac4f680eff1bb550aa8ecb1552ec8c46db7140bb"


def test_everything_is_told_in_the_language_of_the_person(gonogo, project):
    told = gonogo("instructions", "-C", str(project), env={"GONOGO_LOCALE": "ru"}).stdout
    assert told.splitlines()[:6] == [
        f"skills  skills  whole  18 B  sha256 {SKILLS}",
        f"AGENTS.md  repository  whole  15 B  sha256 {AGENTS}",
        "GEMINI.md пропущен: ссылка «GEMINI.md» ведёт за пределы рабочей папки",
        "",
        "Вот что увидят агенты:",
        "",
    ]
    assert told.splitlines()[6].startswith("Файлы инструкций в том виде, в каком gonogo прочитал")
    assert told.splitlines()[-4:] == [
        f"AGENTS.md (из репозитория, sha256 {AGENTS}, байт: 15):", "| Use tabs.\\x1b[31m", "",
        "Конец файлов инструкций.",
    ]  # fmt: skip


def test_where_they_are_off_the_files_are_listed_and_nothing_is_told(gonogo, project):
    off = {"GONOGO_INSTRUCTIONS": "off", "GONOGO_LOCALE": "ru"}
    said = gonogo("instructions", "-C", str(project), env=off).stdout
    assert said == (
        "Настройка GONOGO_INSTRUCTIONS выключена: агенты не получают ни файлов инструкций, "
        "ни навыков.\n"
    )
    found = json.loads(gonogo("instructions", "-C", str(project), "--json").stdout)
    assert [[*file.values()] for file in found["files"]] == [
        ["skills", "skills", SKILLS, 18, "whole", False],
        ["AGENTS.md", "repository", AGENTS, 15, "whole", False],
    ]
    assert found["left_out"] == [
        {"path": "GEMINI.md", "reason": "The link 'GEMINI.md' leads out of the workspace"}
    ]
    nothing = json.loads(gonogo("instructions", "-C", str(project), "--json", env=off).stdout)
    assert nothing == {"on": False, "files": [], "skills": [], "left_out": [], "content": ""}
