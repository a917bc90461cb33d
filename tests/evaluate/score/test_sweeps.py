"""Scores of decoded sets: the LM weight comes from dev, and no utterance vanishes."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.evaluate.score.scores import Metric, read_scores, write_scores
from bayes_asr.evaluate.score.sweeps import (
    SetPaths,
    TextSweep,
    find_hypotheses,
    score_sweeps,
)
from tests.support.score_texts import score_texts

# Dev is best at weight 3, test at weight 1.
DEV = {"d1": "sil aa b sil", "d2": "sil k sil"}
TEST = {"t1": "sil aa sil", "t2": "sil t sil"}
DEV_BY_WEIGHT = {
    "1_0.0": {"d1": "sil k sil", "d2": "sil g sil"},
    "3_0.0": {"d1": "sil aa b", "d2": "sil k"},
    "3_1.0": {"d1": "sil aa b", "d2": "sil k"},
}
TEST_BY_WEIGHT = {
    "1_0.0": TEST,
    "3_0.0": {"t1": "sil aa sil sil", "t2": "d"},
    "3_1.0": {"t1": "sil", "t2": ""},
}


def write_table(path: Path, table: Mapping[str, str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{utterance} {words}\n" for utterance, words in table.items()))
    return path


def write_set(
    folder: Path, reference: Mapping[str, str], hypotheses: Mapping[str, Mapping[str, str]]
) -> SetPaths:
    for weights, table in hypotheses.items():
        lmwt, wip = weights.split("_")
        write_table(folder / f"words.lmwt{lmwt}.wip{wip}.txt", table)
    return SetPaths([write_table(folder / "text", reference)], folder)


@pytest.fixture
def sets(tmp_path: Path) -> dict[str, SetPaths]:
    return {
        "dev": write_set(tmp_path / "dev", DEV, DEV_BY_WEIGHT),
        "test": write_set(tmp_path / "test", TEST, TEST_BY_WEIGHT),
    }


def test_weights_come_from_dev_for_each_convention(sets: dict[str, SetPaths]) -> None:
    scores = score_texts(sets, "per")
    for name, errors in {"dev": (2, 0), "test": (4, 2)}.items():
        strict, forgiving = scores[name]
        assert (strict.convention, forgiving.convention) == ("strict", "forgiving")
        assert (strict.counts.errors, forgiving.counts.errors) == errors
        for entry in (strict, forgiving):
            assert (entry.lm_weight, entry.insertion_penalty) == (3.0, 0.0)
            assert (entry.set, entry.metric) == (name, "per")


def test_oracle_takes_the_best_of_each_set(sets: dict[str, SetPaths]) -> None:
    strict = score_texts(sets, "per", oracle=True)["test"][0]
    assert (strict.lm_weight, strict.counts.errors) == (1.0, 0)


def test_counts_of_utterances_add_up_to_the_pooled(sets: dict[str, SetPaths]) -> None:
    for score in score_texts(sets, "per")["test"]:
        entry = score.as_dict()
        for key in ("errors", "tokens", "substitutions", "insertions", "deletions"):
            assert entry[key] == sum(u[key] for u in entry["utterances"])
        assert entry["rate"] == 100 * entry["errors"] / entry["tokens"]
        assert [u["utterance"] for u in entry["utterances"]] == ["t1", "t2"]


def test_score_files_keep_everything(sets: dict[str, SetPaths], tmp_path: Path) -> None:
    scores = score_texts(sets, "per")["test"]
    write_scores(scores, tmp_path / "score_test.json")
    assert read_scores(tmp_path / "score_test.json") == scores
    first = json.loads((tmp_path / "score_test.json").read_text())[0]
    keys = (
        "set metric convention lm_weight insertion_penalty errors tokens substitutions "
        "insertions deletions rate utterances"
    )
    assert set(keys.split()) <= first.keys()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"errors": 2', '"errors": 3', "forgiving counts are not those of the texts"),
        ('"convention"', '"konvention"', "convention is missing"),
        ("[", "", "not a score file"),
    ],
)
def test_altered_score_files_are_refused(
    sets: dict[str, SetPaths], tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = tmp_path / "score_test.json"
    write_scores(score_texts(sets, "per")["test"], path)
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError, match=f"score_test.json.*{message}"):
        read_scores(path)


def test_empty_score_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "score_dev.json").write_text("[]")
    with pytest.raises(InputError, match=r"score_dev.json: not a score file \(it has no entries"):
        read_scores(tmp_path / "score_dev.json")


def test_lines_name_the_convention_and_the_weights(sets: dict[str, SetPaths]) -> None:
    strict, forgiving = score_texts(sets, "per")["test"]
    assert strict.line().startswith("%PER 66.67 [ 4 / 6, 1 ins, 2 del, 1 sub ] test PER (strict)")
    assert forgiving.line().endswith("test PER (forgiving), LM weight 3, penalty 0.0")


def test_words_have_one_convention(sets: dict[str, SetPaths]) -> None:
    assert [s.convention for s in score_texts(sets, "wer")["test"]] == ["plain"]


def test_phones_are_folded_on_both_sides(tmp_path: Path) -> None:
    sets = {"dev": write_set(tmp_path, {"u": "sil ix vcl q zh"}, {"1_0.0": {"u": "h# ih cl sh"}})}
    assert score_texts(sets, "per", phone_map=39)["dev"][0].counts.errors == 0
    assert score_texts(sets, "per", phone_map=48)["dev"][0].counts.errors == 3
    assert score_texts(sets, "per")["dev"][0].counts.tokens == 5


def test_utterances_that_utt2spk_lacks_are_refused(tmp_path: Path) -> None:
    """Each would be a speaker of its own, over which p is computed."""
    said = {"u": "a", "v": "a", "w": "a"}
    paths = write_set(tmp_path, said, {"1_0.0": said})
    tables = [write_table(tmp_path / name / "utt2spk", {"u": "anna"}) for name in "xy"]
    write_table(tables[1], {"x": "bob"})
    sets = {"dev": SetPaths(paths.references, paths.decode, tables)}
    lacking = f"{tables[0]} and {tables[1]}: lacks 2 of 3 utterances, v, w; complete it"
    with pytest.raises(InputError, match=lacking):
        score_texts(sets, "wer")
    write_table(tables[1], {"v": "bob", "w": "bob", "x": "bob"})
    score, *_ = score_texts(sets, "wer")["dev"]
    assert {speaker: c.tokens for speaker, c in score.speakers.items()} == {"anna": 1, "bob": 2}


def test_speakers_come_from_utt2spk(tmp_path: Path) -> None:
    paths = write_set(tmp_path, {"u": "a", "v": "b"}, {"1_0.0": {"u": "a", "v": "b"}})
    utt2spk = write_table(tmp_path / "utt2spk", {"u": "anna", "v": "bob"})
    sets = {"dev": SetPaths(paths.references, paths.decode, [utt2spk])}
    utterances = score_texts(sets, "wer")["dev"][0].utterances
    assert [u.speaker for u in utterances] == ["anna", "bob"]


def test_words_of_what_was_not_heard_are_deletions(tmp_path: Path) -> None:
    paths = write_set(tmp_path, {"t": "sil a b sil", "u": "a"}, {"1_0.0": {"u": "a"}})
    with pytest.raises(InputError, match=r"1 of 2 utterances of the reference have no hyp.*: t"):
        score_sweeps({"dev": TextSweep("dev", paths, "sclite", {})}, "per", "sclite")
    sweep = TextSweep("dev", paths, "sclite", {}, without_features=("t",))
    strict, forgiving = score_sweeps({"dev": sweep}, "per", "sclite")["dev"]
    assert (strict.counts.deletions, strict.counts.errors, strict.counts.tokens) == (4, 4, 5)
    assert (forgiving.counts.deletions, forgiving.counts.errors) == (2, 2)


def test_weights_sort_by_number(tmp_path: Path) -> None:
    write_set(tmp_path, DEV, {"10_0.0": DEV, "9_-0.5": DEV, "9_0.0": DEV, "0.5_1.0": DEV})
    assert list(find_hypotheses(tmp_path)) == [(0.5, 1.0), (9, -0.5), (9, 0.0), (10, 0.0)]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"d1": "sil"}, "1 of 2 utterances of the reference have no hypothesis: d2"),
        ({"d1": "a", "d2": "", "d3": "b"}, "utterances with a hypothesis are not .*: d3"),
    ],
)
def test_no_utterance_vanishes(tmp_path: Path, table: dict[str, str], message: str) -> None:
    sets = {"dev": write_set(tmp_path, DEV, {"1_0.0": table})}
    with pytest.raises(InputError, match=message):
        score_texts(sets, "wer")


def test_test_must_be_decoded_at_the_weight_of_dev(tmp_path: Path) -> None:
    sets = {
        "dev": write_set(tmp_path / "dev", DEV, DEV_BY_WEIGHT),
        "test": write_set(tmp_path / "test", TEST, {"1_0.0": TEST}),
    }
    with pytest.raises(InputError, match=r"set test was not decoded at LM weight 3 and .* 0\.0"):
        score_texts(sets, "per")


@pytest.mark.parametrize(
    ("metric", "names", "message"),
    [
        ("cer", ["dev"], "unknown metric 'cer'; known: per, wer"),
        ("per", ["test"], r"picked on set dev, but there are only \['test'\]"),
    ],
)
def test_what_cannot_be_scored(
    sets: dict[str, SetPaths], metric: Metric, names: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        score_texts({name: sets[name] for name in names}, metric)


def test_empty_and_misnamed_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="decode the set before scoring"):
        find_hypotheses(tmp_path)
    write_table(tmp_path / "words.lmwtx.wip0.0.txt", DEV)
    with pytest.raises(InputError, match=r"expected a name like words\.lmwt5\.wip0\.0\.txt"):
        find_hypotheses(tmp_path)
