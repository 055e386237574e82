"""Words of mixed scripts are found; words of one, and names of several words, are left alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gonogo.domain.text_safety import mixed_letters

FINE = [
    "git push", "отчёт.txt", "отчёт_v2.txt", "src/Документы/план-final.md", "日本語abc", "naïve",
    "резюме 2.docx", "ру\u0301сский", "Ελλάδα", "nº",
    "食べるrun", "コピーするv2", "한글과漢字", "ㄅㄆ注音abc",
]  # fmt: skip


@pytest.mark.parametrize("text", FINE)
def test_a_word_of_one_script_is_fine(text):
    assert mixed_letters(text) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("g\u0456t push", "'g\u0456t' is Latin with Cyrillic U+0456"),
        ("src/\u0430pp.py", "'\u0430pp' is Latin with Cyrillic U+0430"),
        ("сp", "'сp' is Latin with Cyrillic U+0441"),
        ("κ\u0061λ", "'κaλ' is Greek with Latin U+0061"),
    ],
)
def test_a_word_of_several_scripts_is_named_with_the_letters_that_do_not_belong(text, said):
    assert mixed_letters(text) == said


def test_a_letter_that_has_no_name_belongs_to_no_known_script():
    # A Tangut letter; later versions of Unicode's table give it a name.
    said = mixed_letters("a\U00017000")
    assert said in {f"'a\U00017000' is Latin with {who} U+17000" for who in ("Unknown", "Tangut")}


def test_many_such_words_are_counted():
    first = "'aж' is Latin with Cyrillic U+0436; 'bж' is Latin with Cyrillic U+0436"
    three = f"{first}; 'cж' is Latin with Cyrillic U+0436"
    assert mixed_letters("aж bж cж") == three
    assert mixed_letters("aж bж cж dж eж aж") == f"{three}; and 2 more such words"
    several = "'abжλ' is Latin with Cyrillic U+0436, Greek U+03BB"
    assert mixed_letters("abжλ") == several


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_plain_text_is_fine(text):
    assert mixed_letters(text) is None


@given(st.text(alphabet="абвгдеёжзийклмнопрстуфхцчшщъыьэюя_- ./0123456789"))
def test_russian_text_is_fine(text):
    assert mixed_letters(text) is None
