"""A filter of jq is harmless if each name that it calls is; what jq itself does is the measure."""

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gonogo.policy.kinds import looks_out
from plugins.nightly import examples

CANARY = b"5d1f0c"
HARMLESS = r"""
.
.env
.a.env
.a?.env
..
.[0].x[1:2]
. as $x | $x
{$x}
{(.a): .b}
{"a b": 1}
{range, until: 1, a: .b}
{a, range}
. as {range: $x} | $x
"$ENV range"
"\\(range)"
[.[] | select(.a == "range")]
{a:{range}}
[{range},.range]
"\u0065nv"
"a\(.b)c\(.d.e)"
"\("\(.a)")"
@base64 "\(.a)"
.1
1e-3
if .a then .b elif .c then .d else .e end
reduce .[] as $i (0; . + $i)
recurse
[..]
limit(3; .[])
to_entries[] | "\(.key)=\(.value)"
.a // empty
try error("x") catch .
.[] |= . + 1
[.[] | {name, version}]
map(select(.a > 1 and (.b | not)))
label $out | .
..|numbers
del(.env)
""".strip().splitlines()
LOOK_OUT = r"""
env
$ENV
$ ENV
{$ENV}
{$ ENV}
$__loc__
$__prog_args
[env]
(env)
{a: env}
{(env): 1}
{a: (1, env)}
{a: [1, env]}
{a: f(1; env)}
..env
1.env
1.5.env
.. | env
.a | env
. as $x | env
"\(env)"
"\(1; env)"
"a\(.b)\(env)"
"\("\(env)")"
"\({a: env})"
@json "\(env)"
input
inputs
debug
input_filename
include "a"; .
import "a" as a; .
def f: 1; f
range(9)
until(.; .)
repeat(.)
while(.; .)
recurse(.)
recurse (.)
halt_error
get_search_list
"a" | modulemeta
a::keys
$a::env
. # env
"
"\(.a"
(.a
.a)
[.a)
{.a]
env.PAGER
splits(env)
é
.é
`
\
limit(1; env)
keys env
{a:1} | env
{env: env}
{env}
{a, env}
{a: env, b}
{range: range(9)}
{a: (1, range(9))}
.["env"]
"\\(env)"
"\(range(9))"
"\("\(range(9))")"
$x::range(9)
..range(9)
""".strip().splitlines()


@pytest.mark.parametrize("text", [*HARMLESS, "", " .a\n| .b\t"])
def test_what_looks_at_its_input_alone_is_harmless(text):
    assert not looks_out(text)


@pytest.mark.parametrize("text", [*LOOK_OUT, "$\tENV", "$\nENV", "recurse\n(.)"])
def test_what_looks_elsewhere_or_never_ends_or_is_not_read_is_not(text):
    assert looks_out(text)


def _run(text):
    if shutil.which("jq") is None:
        pytest.skip("jq is not here")
    return subprocess.run(
        ["jq", "-n", "--arg", "x", "1", text], env={"CANARY": CANARY.decode()}, timeout=60,
        check=False, capture_output=True, executable=shutil.which("jq"),
    )  # fmt: skip


@pytest.mark.parametrize("text", HARMLESS)
def test_each_harmless_filter_is_one_of_jq(text):
    assert b"syntax error" not in _run(f"[{text}]?").stderr


@pytest.mark.parametrize(
    "text", ["env", "$ENV", "$ ENV", '"\\(env)"', "{$ENV}", "{(env | tostring): 1}"]
)
def test_jq_shows_the_environment_where_the_filter_looks_out(text):
    assert CANARY in _run(text).stdout


PIECES = (
    r"""env $ENV .env . .. { } ( ) [ ] , : ; | " \( \\ a .a $x 1 keys @text ? // {a: {env""".split()
)


@settings(max_examples=examples(50, nightly=120), deadline=None)
@given(st.lists(st.sampled_from([*PIECES, " ", "$ ENV", "as $x"]), min_size=1, max_size=8))
def test_no_filter_that_is_harmless_shows_the_environment(pieces):
    text = "".join(pieces)
    if not looks_out(text):
        assert CANARY not in _run(text).stdout
