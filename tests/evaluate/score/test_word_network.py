"""Alignment of networks against the linear alignment and against every pair of paths."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.evaluate.score.counts import align, tally
from bayes_asr.evaluate.score.word_network import (
    _align_networks,
    align_marked,
    read_network,
    same_word,
)

WORDS = st.lists(st.sampled_from("abc"), max_size=7)
ALTERNATIONS = st.lists(
    st.one_of(
        st.sampled_from(["a", "b", "(a)", "(c)"]).map(str.split),
        st.lists(st.sampled_from(["a b", "c", "@", "b (c)"]), min_size=2, max_size=3).map(
            lambda options: ["{", *" / ".join(options).split(), "}"]
        ),
    ),
    max_size=3,
).map(lambda parts: list(itertools.chain(*parts)))


def paths(tokens: list[str]) -> list[list[str]]:
    """Every sequence of words that the tokens spell, marked words still in parentheses."""
    found: list[list[str]] = [[]]
    options: list[list[str]] | None = None
    for token in tokens:
        if token == "{":  # noqa: S105
            options = [[]]
        elif token == "/" and options is not None:  # noqa: S105
            options.append([])
        elif token == "}" and options is not None:  # noqa: S105
            found = [path + [w for w in o if w != "@"] for path in found for o in options]
            options = None
        elif options is not None:
            options[-1].append(token)
        else:
            found = [[*path, token] for path in found]
    return found


def cost(ref: list[str], hyp: list[str]) -> int:
    """sclite's cost of aligning two sequences, `(x)` going for 2 on both sides."""
    least = {(0, 0): 0}
    for i, j in itertools.product(range(len(ref) + 1), range(len(hyp) + 1)):
        steps = [least.get((i, j), 10**9)]
        if i:
            steps.append(least[i - 1, j] + (2 if ref[i - 1].startswith("(") else 3))
        if j:
            steps.append(least[i, j - 1] + (2 if hyp[j - 1].startswith("(") else 3))
        if i and j:
            same = ref[i - 1].strip("()") == hyp[j - 1].strip("()")
            steps.append(least[i - 1, j - 1] + (0 if same else 4))
        least[i, j] = min(steps)
    return least[len(ref), len(hyp)]


@given(ref=WORDS, hyp=WORDS, optional=st.sampled_from([frozenset(), frozenset({"a"})]))
def test_linear_networks_are_aligned_as_sequences(
    ref: list[str], hyp: list[str], optional: frozenset[str]
) -> None:
    edits = _align_networks(read_network(ref, optional), read_network(hyp))
    assert edits == align(ref, hyp, "sclite", optional)


@given(ref=ALTERNATIONS, hyp=ALTERNATIONS)
def test_cheapest_pair_of_paths_is_found(ref: list[str], hyp: list[str]) -> None:
    edits = _align_networks(read_network(ref), read_network(hyp))
    marked = {"substitution": 4, "insertion": 3, "deletion": 3}
    spent = sum(
        2 if e.kind == "correct" and None in (e.ref, e.hyp) else marked.get(e.kind, 0)
        for e in edits
    )
    assert spent == min(cost(r, h) for r in paths(ref) for h in paths(hyp))
    assert [e.ref for e in edits if e.ref is not None] in paths(ref)
    assert [e.hyp for e in edits if e.hyp is not None] in paths(hyp)


@pytest.mark.parametrize(
    ("ref", "hyp", "errors", "tokens"),
    [
        ("a (b) c", "a c", 0, 3),
        ("(a) b a", "b", 1, 3),
        ("{ i am / i'm } here", "i'm here", 0, 2),
        ("{ uh / @ } yes", "yes", 0, 1),
        ("{ uh / } yes", "uh yes", 0, 2),
        ("hel- lo", "hello lo", 0, 2),
        ("-lo", "hello", 0, 1),
        ("hello", "hel-", 0, 1),
        ("- a", "x a", 1, 2),
        ("(hel-)", "hello", 0, 1),
        ("cat* * cat", "cat * cat*", 0, 3),
        ("cat** (cat*)", "cat cat", 2, 2),
    ],
)
def test_marks(ref: str, hyp: str, errors: int, tokens: int) -> None:
    counts = tally(align_marked(ref.split(), hyp.split()))
    assert (counts.errors, counts.tokens) == (errors, tokens)


@pytest.mark.parametrize(("a", "b"), [("a-", "b"), ("ab-", "a"), ("-ab", "b"), ("a", "b-")])
def test_fragments_of_other_words(a: str, b: str) -> None:
    assert not same_word(a, b)


@pytest.mark.parametrize("text", ["{ a / b", "a } b", "{ a { b } }"])
def test_braces_must_match(text: str) -> None:
    with pytest.raises(InputError, match=r"braces do not match|does not end"):
        read_network(text.split())
