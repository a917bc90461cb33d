"""Score files that are damaged, or that no `score` has written."""

import json
from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.evaluate.score.scores import read_scores, write_scores
from tests.support.report_runs import make_score

KEYS = ("set", "metric", "convention", "optional", "costs", "lm_weight", "insertion_penalty")
COUNTS = ("errors", "tokens", "substitutions", "insertions", "deletions", "rate")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "score_test.json"
    write_scores([make_score(1, 0.3, "test", "strict")], file)
    return file


@pytest.mark.parametrize("key", [*KEYS, *COUNTS, "utterances"])
@pytest.mark.parametrize("change", ["missing", {}, 1e400, [3], "\ud800"])
def test_score_files_that_are_wrong_are_named_with_their_key(
    key: str, change: object, path: Path
) -> None:
    (entry,) = json.loads(path.read_text())
    entry[key] = change
    if change == "missing":
        del entry[key]
    path.write_text(json.dumps([entry]))
    with pytest.raises(InputError, match=rf"score_test\.json: .*\b{key}\b.*; score the run again"):
        read_scores(path)


@pytest.mark.parametrize("key", ["utterance", "speaker", "reference", "hypothesis"])
@pytest.mark.parametrize("change", [None, 3, ["a"], "\ud800"])
def test_utterances_that_are_wrong_are_named_with_their_key(
    key: str, change: object, path: Path
) -> None:
    (entry,) = json.loads(path.read_text())
    entry["utterances"][1][key] = change
    path.write_text(json.dumps([entry]))
    with pytest.raises(InputError, match=rf"score_test\.json: .*{key} is .*, not a text"):
        read_scores(path)


def test_convention_twice_is_refused(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) * 2))
    with pytest.raises(InputError, match="it has a convention twice"):
        read_scores(path)
