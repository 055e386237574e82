"""JavaScript, TypeScript and Go that reads no more is told of; what is hostile harms nobody."""

import subprocess
import sys

import pytest

from fakes.world import a_while, is_running
from gonogo.tools import edits, grammars
from gonogo.tools.edits import broken, each_broken


@pytest.mark.parametrize(
    ("path", "text", "where"),
    [
        ("a.js", "function f() {\n  g();\n\nh();\n", "JavaScript any more: line 4: '}' is missing"),
        ("a/b.mjs", "a();\nlet x = ;\n", "JavaScript any more: line 2: unexpected '='"),
        ("a.cjs", "if (a) {\n}}\n", "JavaScript any more: line 2: unexpected '}'"),
        ("a.jsx", "let a = <b>\n{c</b>;\n", "JavaScript any more: line"),
        ("a.ts", "let a: number[ = [];\n", "TypeScript any more: line 1: "),
        ("a.tsx", "let a = <b><i>c</b>;\n", "TSX any more: line 1: unexpected 'let a"),
        ("a.go", "package a\nfunc f() { if x { }\n", "Go any more: line 3: '}' is missing"),
        ("a.go", "package a\n// é\nfunc é( {}\n", "Go any more: line 3: "),
    ],
)
@pytest.mark.feature(228)
def test_what_does_not_read_any_more_says_where(path, text, where):
    sound = b"package a\n" if path.endswith("go") else b"a();\n"
    said = broken(path, sound, text.encode())["problem"]

    assert said.startswith(f"{path!r} is not valid {where}")


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("a.js", None, b"#!/usr/bin/node\nconst f = async () => { for await (a of b) {} };\n"),
        ("a.jsx", None, b"const a = <b c={d}>e &amp; {f}</b>;\n"),
        ("a.ts", None, b"export type A<T> = T extends infer U ? U : never;\nlet a = <A<b>>c;\n"),
        ("a.tsx", None, b"const a = <T,>(b: T) => <c d={b satisfies T} />;\n"),
        ("a.go", None, b"package a\n\nfunc F[T any](x T) { for i := range 10 { _ = i } }\n"),
        ("a.js", b"let x = ;\n", b"let y = ;\n"),
        ("a.js", None, b""),
        ("a.vue", None, b"let x = ;\n"),
        ("a.js", None, b"let x = ;" + b" " * (1 << 18)),
    ],
    ids=["JavaScript", "JSX", "TypeScript", "TSX", "Go", "never did", "empty", "other", "large"],
)  # fmt: skip
def test_nothing_is_said_of_what_reads_or_never_did_or_is_not_looked_at(path, before, after):
    assert broken(path, before, after) == {}


@pytest.mark.spread(3)
@pytest.mark.parametrize(
    "data",
    [bytes(range(256)) * 900, "\U0010ffff\U000e0041".encode() * 20_000, b"\xed\xb3\xbf" * 50_000,
     b"`${" * 60_000, b"[" * 250_000, b"<a>" * 80_000, b"a<" * 120_000, b"\0" * 100_000],
    ids=["bytes", "far letters", "surrogates", "templates", "brackets", "tags", "types", "zeros"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["a.js", "a.tsx", "a.go"])
def test_no_text_takes_us_with_it_or_holds_us_up(path, data):
    assert broken(path, None, data).keys() <= {"problem"}


async def test_one_that_takes_too_long_is_ended_and_nothing_is_said(tmp_path, monkeypatch):
    mark, parser = a_while(), tmp_path / "parser"
    parser.write_text(f"#!/bin/sh\nexec sleep {mark}\n")
    parser.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(parser))

    assert grammars.misread("Go", b"func (", seconds=0.2) is None
    await is_running(mark, False)


@pytest.mark.parametrize("before", [None, b"func ("], ids=["new", "as it was before"])
def test_the_last_files_of_a_change_have_only_the_time_that_is_left(before, monkeypatch):
    now, given = [0.0], []

    def misread(kind, data, *, seconds):
        given.append(seconds)
        now[0] += 4
        return "odd"

    monkeypatch.setattr(edits, "monotonic", lambda: now[0])
    monkeypatch.setattr(grammars, "misread", misread)
    changes = [(f"{name}.go", before, b"func (") for name in "abcd"]

    told = list(each_broken(changes, patience=10))
    assert given == [grammars.SECONDS, grammars.SECONDS, 2]
    assert [bool(each) for each in told] == [before is None, before is None, before is None, False]


def alone(program, *flags):
    """What a program says to which `the` are the names of the module, in a process of its own."""
    program = f"import runpy; the = runpy.run_path({grammars.__file__!r}); {program}"
    argv = [sys.executable, "-I", *flags, "-c", program]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()


def test_its_process_ends_itself_where_nobody_does():
    said = "the['_limit'](); r = the['resource']; print(*r.getrlimit(r.RLIMIT_CPU))"
    assert alone(said) == ["5", "5"]


def test_where_a_grammar_is_not_installed_nothing_is_said():
    assert broken("a.go", None, b"func (") != {}
    # Without the packages that are installed.
    assert alone("print(the['misread']('Go', b'func ('))", "-S") == ["None"]


def test_a_change_of_many_files_is_not_held_up_for_long():
    changes = [("a.go", None, b"func ("), ("b.go", None, b"func ("), ("c.go", b"", None)]
    assert list(each_broken(changes, patience=0)) == [{}, {}, {}]
    assert [sorted(each) for each in each_broken(changes)] == [["problem"], ["problem"], []]
