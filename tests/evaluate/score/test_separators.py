"""Words that hold what Unicode calls white space and Kaldi does not: no reader splits them."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.evaluate.score.glm import filter_words, read_glm
from bayes_asr.evaluate.score.scores import Score, read_scores, write_scores
from bayes_asr.evaluate.score.sweeps import Reference, score_utterances
from bayes_asr.kaldi_io.binary import split_words
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.text import read_mapping, read_text, write_mapping, write_text
from tests.support.report_runs import make_run

SEPARATORS = "\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2003\u2028\u2029\u202f\u205f\u3000"
WORDS = st.text(
    st.one_of(
        st.sampled_from(SEPARATORS + "aé"),
        st.characters(exclude_characters="\0 \t\n\v\f\r", exclude_categories=["Cs"]),
    ),
    min_size=1,
    max_size=4,
).filter(lambda word: not word.startswith("\ufeff"))
TEXTS = st.dictionaries(WORDS, st.lists(WORDS, max_size=4), min_size=1, max_size=4)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(texts=TEXTS, words=st.lists(WORDS))
def test_what_is_written_is_read(
    texts: dict[str, list[str]], words: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("texts")
    write_text(texts.items(), folder / "text")
    assert read_text(folder / "text") == texts
    speakers = dict(zip(texts, reversed(texts), strict=True))
    write_mapping(speakers.items(), folder / "utt2spk")
    assert read_mapping(folder / "utt2spk") == speakers
    numbers = {word: number for number, word in enumerate(texts)}
    write_mapping(numbers.items(), folder / "words.txt")
    assert read_symbols(folder / "words.txt") == numbers
    assert split_words(" ".join(words)) == words
    # As bytes split, which know ASCII alone.
    joined = "\t".join(words)
    assert [word.encode() for word in split_words(joined)] == joined.encode().split()


@settings(deadline=None, max_examples=40)
@given(reference=TEXTS, hypothesis=st.lists(WORDS, max_size=4))
def test_scores_are_read_as_they_were_written(
    reference: dict[str, list[str]],
    hypothesis: list[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("scores") / "score_test.json"
    utterances = score_utterances(
        Reference(reference), dict.fromkeys(reference, hypothesis), "hyp", "sclite", frozenset()
    )
    score = Score("test", "wer", "plain", frozenset(), "sclite", 3.0, 0.0, utterances)
    if not score.counts.tokens:
        return
    write_scores([score], path)
    assert read_scores(path) == [score]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Glyph")  # the font of a figure has no picture of a separator
def test_what_score_accepts_report_and_compare_accept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").mkdir()
    make_run(tmp_path / "a")
    text = {f"u{i}": [f"a{separator}b", "c"] for i, separator in enumerate(SEPARATORS)}
    hypothesis = {utt: ["c"] for utt in text}
    scored = score_utterances(Reference(text), hypothesis, "hyp", "sclite")
    for name in ("dev", "test"):
        score = Score(name, "wer", "plain", frozenset(), "sclite", 3.0, 0.0, scored)
        write_scores([score], tmp_path / "a" / f"score_{name}.json")
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "a")]) == 0
    assert main(["report", str(tmp_path / "a"), f"--out={tmp_path / 'report'}"]) == 0
    assert f"[ {len(SEPARATORS)} / {2 * len(SEPARATORS)}, " in capsys.readouterr().out


def test_rules_split_at_ascii_blanks_alone() -> None:
    """NIST's filters are C programs in the C locale."""
    assert filter_words("A\u00a0B (c\u2028d e)\tf\x1cg", None) == [
        "a\u00a0b",
        "(c\u2028d)",
        "(e)",
        "f\x1cg",
    ]


def test_rule_of_a_bad_pattern_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rules.glm"
    path.write_text(';;\n;; INPUT_DEPENDENT_APPLICATION = "(" \n[a] => [b]\n')
    with pytest.raises(InputError, match=r"rules\.glm, line 2: '\(': "):
        read_glm(path, "ref")
