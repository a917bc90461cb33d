"""Scores of experts and regressions of them: NumPy's, closed forms, and damaged files."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_asr.base.errors import InputError
from bayes_asr.kaldi_io.ark import write_matrices
from tests.support.places import RECIPES
from tests.support.recipe_modules import loaded

PHONES = st.lists(st.sampled_from(["AA", "B", "K", "T"]), max_size=8)
WORD = {"text": "BEAR", "accuracy": 6, "phones": ["B", "EH0", "R"], "phones-accuracy": [2, 1, 0.4]}


@pytest.fixture(scope="module", autouse=True)
def _modules() -> Iterator[None]:
    names = ("corpus", "notation", "experts", "regressions", "goodness", "against_experts")
    with loaded(RECIPES / "speechocean762", *names):
        yield


def write_scores(corpus: Path, word: object) -> Path:
    path = corpus / "resource/scores.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"000010011": {"text": "BEAR", "words": [word]}}))
    return path


@pytest.mark.parametrize("phones", [["B", "EH0", "R"], "B EH0 R"], ids=["published", "described"])
def test_scores_are_read(tmp_path: Path, phones: object) -> None:
    experts = sys.modules["experts"]
    path = write_scores(tmp_path, WORD | {"phones": phones})
    assert experts.find_scores(tmp_path) == path
    (word,) = experts.read_scores(path)["000010011"]
    assert word == experts.ScoredWord("BEAR", 6.0, ("B", "EH", "R"), (2.0, 1.0, 0.4))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"phones": ["B"]}, "000010011: .*1 phones and 3 scores of BEAR"),
        ({"phones-accuracy": [2, 3, 0]}, "000010011: .*a score of 3, not 0 to 2"),
        ({"accuracy": "good"}, "000010011: TypeError"),
        ({"accuracy": 11}, "000010011: .*a score of 11, not 0 to 10"),
        ({"phones": None}, "000010011: TypeError"),
    ],
)
def test_other_scores_are_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = write_scores(tmp_path, WORD | change)
    with pytest.raises(InputError, match=message):
        sys.modules["experts"].read_scores(path)


@pytest.mark.parametrize(("content", "message"), [("{", "not JSON"), ("[]", "a list")])
def test_other_files_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "scores.json"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        sys.modules["experts"].read_scores(path)


# 000010011 and a word of 004820268, as the corpus' README and its first versions note them.
CALL = {
    "text": "call",
    "accuracy": [10, 8, 10, 10, 8],
    "phones": ["K AO0 L", "K {AO0} L", "K AO0 L", "K AO0 L", "K AO0 {L}"],
}
BEAR = {
    "text": "bear",
    "accuracy": [3, 7, 10, 2, 6],
    "phones": ["B (EH0) (R)", "B {EH0} {R}", "B EH0 R", "B (EH0 R)", "B EH0 [L] R"],
}
LION = {
    "text": "lion",
    "accuracy": [10, 10, 10, 10, 10],
    "phones": ["L AX1 IR0 N", "L AX1 (IR0) N", "L AY1 AX0 N", "{L} AX1 IR0 N", "L AX1 IR0 N"],
}


def test_the_notation_of_five_experts(tmp_path: Path) -> None:
    """CALL and BEAR have what the README publishes of them; four of five expect L AH IH AH N."""
    path = tmp_path / "resource/utt2score"
    path.parent.mkdir()
    path.write_text("000010011\t" + json.dumps({"words": [CALL, BEAR, LION]}) + "\n")
    experts = sys.modules["experts"]
    assert experts.find_scores(tmp_path) == path
    call, bear, lion = experts.read_scores(path)["000010011"]
    assert call == experts.ScoredWord("CALL", 10.0, ("K", "AO", "L"), (2.0, 1.8, 1.8))
    assert bear == experts.ScoredWord("BEAR", 6.0, ("B", "EH", "R"), (2.0, 1.0, 1.0))
    assert lion.phones == ("L", "AH", "IH", "AH", "N")
    assert lion.phone_accuracies == (1.75, 2.0, 1.5, 1.5, 2.0)


def test_another_notation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "utt2score"
    path.write_text("000010011 WE CALL IT BEAR\n")
    with pytest.raises(InputError, match="000010011 WE CALL IT BEAR: JSONDecodeError"):
        sys.modules["experts"].read_scores(path)


def test_a_clone_without_scores_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["run", "--data", "data", "--corpus", str(tmp_path)]
    assert sys.modules["against_experts"].main(options) == 0
    assert "no resource/scores.json" in capsys.readouterr().out


def test_files_that_disagree_are_named(tmp_path: Path) -> None:
    experts, goodness = sys.modules["experts"], sys.modules["goodness"]
    for table in ("utt2spk", "utt2age"):
        (tmp_path / table).write_text("a x\n")
    (tmp_path / "gop.txt").write_text("a 0 B -0.5\n")
    write_matrices([("a", np.zeros((1, 4)))], tmp_path / "features.ark", tmp_path / "features.scp")
    words = [experts.ScoredWord("BE", 8.0, ("B", "IY"), (2.0, 1.0))]
    scored_phones = goodness.read_goodness(tmp_path, tmp_path, {"a": words})
    assert scored_phones.accuracy.tolist() == [2.0]
    assert scored_phones.lost == 1
    with pytest.raises(InputError, match="a has 1 rows of features, 1 phones and 0 words"):
        goodness.read_goodness(tmp_path, tmp_path, {"b": words})


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("features.scp", "", "features.scp: holds no utterance"),
        ("gop.txt", "a 0 B\n", "gop.txt, line 1: not"),
        ("gop.txt", "a 0 B b\n", "gop.txt, line 1: not"),
        ("utt2spk", "b x\n", "utt2spk: lacks a"),
        ("utt2age", "b x\n", "utt2age: lacks a"),
    ],
)
def test_files_without_what_is_due_are_named(
    file: str, content: str, message: str, tmp_path: Path
) -> None:
    for table in ("utt2spk", "utt2age"):
        (tmp_path / table).write_text("a x\n")
    (tmp_path / "gop.txt").write_text("a 0 B -0.5\n")
    write_matrices([("a", np.zeros((1, 4)))], tmp_path / "features.ark", tmp_path / "features.scp")
    (tmp_path / file).write_text(content)
    words = [sys.modules["experts"].ScoredWord("BE", 8.0, ("B", "IY"), (2.0, 1.0))]
    with pytest.raises(InputError, match=message):
        sys.modules["goodness"].read_goodness(tmp_path, tmp_path, {"a": words})


def scored(rng: np.random.Generator, size: int = 400) -> tuple[np.ndarray, ...]:
    """Goodness, experts' scores and phones, whose relations differ."""
    phones = rng.choice(["AA", "B"], size)
    gop = -rng.exponential(2.0, size)
    scores = 2 + np.where(phones == "B", 0.2, 0.1) * gop + rng.normal(0, 0.2, size)
    return gop, np.clip(scores, 0, 2), phones


def test_a_polynomial_of_each_phone() -> None:
    regressions = sys.modules["regressions"]
    gop, scores, phones = scored(np.random.default_rng(0))
    fitted = regressions.fit(regressions.quadratic(gop), scores, phones)
    predicted = fitted.predict(regressions.quadratic(gop), phones)
    for phone in ("AA", "B"):
        own = phones == phone
        expected = np.polyval(np.polyfit(gop[own], scores[own], 2), gop[own])
        np.testing.assert_allclose(predicted[own], expected, atol=1e-9)


def test_balanced_classes_are_as_if_the_rarer_ones_were_repeated() -> None:
    regressions = sys.modules["regressions"]
    gop = np.array([-9.0, -4, -3, -1, -1, -0.5, -0.2, 0, 0])
    scores = np.array([0.0, 1, 1, 1, 2, 2, 2, 2, 2])  # once, three and five times
    phones = np.full(9, "B")
    repeated = np.repeat(np.arange(9), [15, 5, 5, 5, 3, 3, 3, 3, 3])
    inputs = regressions.quadratic(gop)
    balanced = regressions.fit(inputs, scores, phones, balanced=True)
    plain = regressions.fit(inputs[repeated], scores[repeated], phones[repeated])
    np.testing.assert_allclose(balanced.coefficients["B"], plain.coefficients["B"], rtol=1e-9)


def test_a_ridge_is_its_closed_form() -> None:
    regressions = sys.modules["regressions"]
    rng = np.random.default_rng(1)
    x = np.column_stack([np.ones(30), rng.standard_normal((30, 4))])
    y = rng.standard_normal(30)
    fitted = regressions.fit(x, y, np.full(30, "B"), ridge=3.0)
    penalty = 3.0 * np.diag([0.0, 1, 1, 1, 1])
    expected = np.linalg.solve(x.T @ x + penalty, x.T @ y)
    np.testing.assert_allclose(fitted.coefficients["B"], expected, rtol=1e-9)


def test_a_phone_that_train_lacks_is_named() -> None:
    regressions = sys.modules["regressions"]
    fitted = regressions.fit(np.ones((2, 1)), np.ones(2), np.array(["B", "B"]))
    with pytest.raises(InputError, match="ZH: no expert scored this phone in train"):
        fitted.predict(np.ones((1, 1)), np.array(["ZH"]))


def test_a_correlation_and_its_interval() -> None:
    """Against NumPy's, of all and of resampled speakers one by one."""
    regressions = sys.modules["regressions"]
    rng = np.random.default_rng(2)
    x = rng.standard_normal(300) + 5
    y = 0.5 * x + rng.standard_normal(300)
    speakers = np.repeat([f"s{n}" for n in range(20)], 15)
    found = regressions.correlate(x, y, speakers)
    assert found.value == pytest.approx(np.corrcoef(x, y)[0, 1])
    drawn = []
    for _ in range(1000):
        rows = (15 * rng.integers(0, 20, 20)[:, None] + np.arange(15)).ravel()
        drawn.append(np.corrcoef(x[rows], y[rows])[0, 1])
    assert (found.low, found.high) == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.02)


def test_nothing_has_no_correlation() -> None:
    nothing = np.zeros(0)
    assert np.isnan(sys.modules["regressions"].correlate(nothing, nothing, [])).all()


@given(theirs=PHONES, ours=PHONES)
def test_phones_are_matched_in_order(theirs: list[str], ours: list[str]) -> None:
    i, j = sys.modules["goodness"].match(theirs, ours)
    assert [ours[place] for place in i] == [theirs[place] for place in j]
    assert all(np.diff(i) > 0)
    assert all(np.diff(j) > 0)
    if theirs == ours:
        assert i.tolist() == j.tolist() == [*range(len(ours))]


def test_the_table_of_scores_that_goodness_predicts() -> None:
    """Phones of words of two; the features say what the goodness does not."""
    rng = np.random.default_rng(3)
    table = sys.modules["goodness"].ScoredPhones

    def draw(size: int) -> object:
        gop, scores, phones = scored(rng, size)
        hidden = rng.standard_normal(size)
        accuracy = np.clip(scores - 0.4 * np.abs(hidden), 0, 2)
        return table(
            phone=phones,
            goodness=gop,
            features=np.column_stack([gop, np.abs(hidden)]),
            accuracy=accuracy,
            speaker=np.repeat([f"s{n}" for n in range(10)], size // 10),
            group=np.repeat(["adult", "child"], size // 2),
            word=np.repeat(np.arange(size // 2), 2),
            word_accuracy=5 * accuracy.reshape(-1, 2).mean(axis=1),
            lost=1,
        )

    lines = sys.modules["against_experts"].tabulate(draw(600), draw(200), draw(400))
    assert lines[0].startswith("400 phones of test; 1 were aligned otherwise")
    rows = {cells[1].strip(): cells for cells in (line.split("|") for line in lines[4:])}
    names = ["goodness", "quadratic, classes", "quadratic"]
    assert [*rows][:3] == names
    correlations = [float(cells[2].split("[")[0]) for cells in rows.values()]
    goodness, _, quadratic, ridge, words = correlations
    assert 0.3 < goodness < quadratic + 0.1 < ridge < 1
    assert words > 0.8
