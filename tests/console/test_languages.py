"""Every text of the console is translated: in a language that nobody speaks, ours stand in ⟦⟧."""

import re

import pytest

from console.plans import FIRST, GOAL, SAYS, Person

expect = pytest.importorskip("playwright.sync_api").expect

TEXTS = """() => {
  const found = [];
  const isOurs = (element) =>
    element.closest("code, pre, kbd, style, svg, [aria-hidden=true], [translate=no]") === null &&
    !getComputedStyle(element).fontFamily.includes("mono") && element.checkVisibility();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    if (isOurs(node.parentElement)) found.push(node.data);
  }
  for (const name of ["aria-label", "title", "placeholder"]) {
    for (const element of document.querySelectorAll(`[${name}]`)) {
      if (isOurs(element)) found.push(element.getAttribute(name));
    }
  }
  return found;
}"""
"""What people read on the page: not what stands as code, such as paths and commands."""
INNER = re.compile(r"⟦[^⟦⟧]*⟧")
DATA = re.compile(
    "|".join((
        r"\b(s|plan|call|apr|link|tok|gng)_\w+", r"[\w.-]*/[\w/.-]+", r"\w+\.(txt|md|toml|jsonl)",
        FIRST, GOAL, r"Write the \w+ half", r"The \w+ half is there\.", r"A plan\.",
        r"It went well\.",
        r"\b(gonogo|state-folder|left|right|spoken|local|token|English|Русский|JSON)\b",
        r"\b(coder|architect|ask|debug|orchestrator|universal)\b",
        r"\b(ago|now|in|AM|PM|UTC|seconds?|minutes?|hours?|yesterday|[A-Z][a-z]{2} \d+)\b",
    ))
)  # fmt: skip
"""What a session, a model, a person, or the browser of the date says."""
PLACES = (
    "sessions", "sessions/spoken", "sessions/spoken/plan", "sessions/spoken/changes",
    "sessions/spoken/checkpoints", "approvals", "analytics", "settings/agents",
    "settings/tools", "settings/models", "settings/servers", "settings/policy",
    "settings/rules?session=spoken", "settings/grants", "settings/tokens", "nowhere",
)  # fmt: skip


def untranslated(page) -> set[str]:
    """The texts of a page in which words are left when ours and those of data are taken away."""
    found = set()
    for text in page.evaluate(TEXTS):
        left = text
        while (less := INNER.sub("", left)) != left:
            left = less
        if re.search(r"[A-Za-z]{2}", DATA.sub("", left)):
            found.add(text)
    return found


def test_no_page_shows_a_text_that_is_not_translated(server, ground, look):
    ground.model.script(SAYS)
    Person(server).carry_out("spoken")
    page = look(server.link)
    page.get_by_role("heading", level=1).wait_for()
    page.evaluate("localStorage.setItem('gonogo-language', 'en-XA')")
    page.reload()

    seen = {}
    for place in PLACES:
        page.goto(f"{server.url}/#/{place}")
        page.get_by_text("⟦").first.wait_for()
        page.wait_for_load_state("networkidle")
        seen |= dict.fromkeys(untranslated(page), place)
    assert seen == {}
