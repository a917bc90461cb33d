"""Named conventions: phones folded by a file, and words that the lexicon lacks left out."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.config.merge import load
from bayes_asr.evaluate.score.comparison import compare
from bayes_asr.evaluate.score.conventions import Convention, choose_conventions
from bayes_asr.evaluate.score.counts import ErrorCounts, align, count_errors, drop_unknown
from bayes_asr.evaluate.score.phones import read_folding
from bayes_asr.evaluate.score.scores import Metric, Score, read_scores, write_scores
from bayes_asr.evaluate.score.sweeps import TextSweep, score_sweeps
from tests.evaluate.decoded.test_run import run_score
from tests.evaluate.score.test_sweeps import write_set, write_table

TONES = "á a\nó o\nq\n"  # q is deleted
SAID = {"u1": "b á q n ó", "u2": "á"}
HEARD = {"0.5_0.0": {"u1": "b a n o", "u2": "o"}, "2_0.0": {"u1": "b á q n o", "u2": "o"}}


@pytest.fixture
def tones(tmp_path: Path) -> Path:
    path = tmp_path / "tones.txt"
    path.write_text(TONES)
    return path


def sweep_of(
    folder: Path, reference: Mapping[str, str], heard: Mapping[str, Mapping[str, str]]
) -> TextSweep:
    return TextSweep("dev", write_set(folder, reference, heard), "levenshtein", {})


def test_a_file_folds_both_sides(tmp_path: Path, tones: Path) -> None:
    assert read_folding(tones) == {"á": "a", "ó": "o", "q": None}
    chosen = choose_conventions("per", ["strict", f"toneless={tones}"], dict)
    sweep = sweep_of(tmp_path, SAID, HEARD)
    strict, toneless = score_sweeps({"dev": sweep}, "per", "levenshtein", conventions=chosen)["dev"]
    assert [score.convention for score in (strict, toneless)] == ["strict", "toneless"]
    assert (strict.counts, strict.lm_weight) == (ErrorCounts(substitutions=2, tokens=6), 2.0)
    assert (toneless.counts, toneless.lm_weight) == (ErrorCounts(substitutions=1, tokens=5), 0.5)
    assert toneless.utterances[0].reference == ("b", "a", "n", "o")
    assert toneless.line().endswith("dev PER (toneless), LM weight 0.5, penalty 0.0")


@pytest.mark.parametrize(
    ("content", "message"),
    [("a b c\n", "line 1: a is there with 2 targets"), ("a b\na c\n", "line 2")],
)
def test_a_file_that_is_no_folding_is_refused(tones: Path, content: str, message: str) -> None:
    tones.write_text(content)
    with pytest.raises(InputError, match=message):
        read_folding(tones)


@pytest.mark.parametrize(
    ("ref", "hyp", "counts"),
    [
        ("a X b", "a p b", (0, 0, 0, 2)),  # a substituted unknown word
        ("a X b", "a p q b", (0, 0, 0, 2)),  # and what else was heard of it
        ("a X b", "a b", (0, 0, 0, 2)),  # a deleted one
        ("X", "p q r", (0, 0, 0, 0)),
        ("X a b", "p a q b", (0, 1, 0, 2)),  # an insertion elsewhere
        ("a X b", "c p b", (1, 0, 0, 2)),
        ("a b", "c", (1, 0, 1, 2)),  # nothing unknown
    ],
)
def test_errors_at_unknown_words_are_left_out(
    ref: str, hyp: str, counts: tuple[int, int, int, int]
) -> None:
    found = count_errors(ref.split(), hyp.split(), "levenshtein", unknown=frozenset("X"))
    assert found == ErrorCounts(*counts)
    assert drop_unknown(align(ref.split(), hyp.split()), frozenset()) == align(
        ref.split(), hyp.split()
    )


def test_known_words_are_those_of_the_graph(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """References come from another file than `text`."""
    run = tmp_path / "run"
    options = ["metric=wer", "text=text_words", "conventions=[plain, known]", "costs=levenshtein"]
    settings = [f"data.dir={tmp_path}", *(f"score.{option}" for option in options)]
    load([], settings).save(run / "config.yaml")
    said = {"u1": "yes new no", "u2": "no no"}
    for name in ("dev", "test"):
        heard = {"1_0.0": {"u1": "yes yes yes no", "u2": "no"}}
        write_set(run / f"decode_{name}", said, heard)
        write_table(tmp_path / "data" / name / "text_words", said)
        write_table(tmp_path / "data" / name / "utt2spk", {"u1": "s", "u2": "s"})
    write_table(tmp_path / "exp/graph/words.txt", {"yes": "1", "no": "2"})
    (tmp_path / "exp/graph/HCLG.fst").touch()
    run_score(run)
    assert (
        "%WER 25.00 [ 1 / 4, 0 ins, 1 del, 0 sub ] test WER (known), LM weight 1, penalty 0.0,"
        " 20.00 % of all words are unknown"
    ) in capsys.readouterr().out.splitlines()
    plain, known = read_scores(run / "score_test.json")
    assert (plain.counts.errors, plain.unknown) == (3, None)
    assert (known.unknown, known.unknown_share) == (frozenset({"new"}), 20.0)


def test_only_systems_that_know_the_same_words_are_compared(tmp_path: Path) -> None:
    def score(name: str, vocabulary: str) -> Score:
        convention = Convention("known", vocabulary=frozenset(vocabulary))
        sweep = sweep_of(tmp_path / name, {"u1": "a b c"}, {"1_0.0": {"u1": "a c"}})
        (found,) = score_sweeps({"dev": sweep}, "wer", "sclite", conventions=[convention])["dev"]
        write_scores([found], tmp_path / f"{name}.json")
        return read_scores(tmp_path / f"{name}.json")[0]

    one, other = score("one", "ac"), score("other", "ab")
    assert (one.counts.errors, other.counts.errors) == (0, 1)
    compare(one, one, ("one", "one"))
    with pytest.raises(InputError, match="one and other differ in unknown"):
        compare(one, other, ("one", "other"))


@pytest.mark.parametrize(
    ("metric", "named", "message"),
    [
        ("per", "known", "names known, which per does not have; known: strict, forgiving, NAME=FI"),
        ("wer", "strict", "names strict, which wer does not have; known: plain, known, NAME=FILE"),
        ("per", "tones=absent.txt", "absent.txt"),
    ],
)
def test_a_convention_that_is_not_there_is_refused(
    metric: Metric, named: str, message: str
) -> None:
    with pytest.raises((InputError, OSError), match=message):
        choose_conventions(metric, [named], dict)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["score.conventions=[strict, strict]"], "names one twice: strict, strict"),
        (["score.conventions=[strict]", "score.glm=english"], "leave it empty with score.glm"),
    ],
)
def test_conventions_that_do_not_go_together_are_refused(settings: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load([], settings)
