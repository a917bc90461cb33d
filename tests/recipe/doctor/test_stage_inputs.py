"""What the stages after training will lack is found before it, with the remedy."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.cli import main
from bayes_asr.kaldi_io.fst import write_fst
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.mdl import write_transition_model
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.recipe.doctor import stage_inputs
from tests.support.places import CONF
from tests.support.small_corpus import settings, write_corpus


def write_graph(folder: Path) -> None:
    """A graph of one arc, of transition-id 1 and word 1."""
    one, weight = np.ones(1, np.int32), np.zeros(1, np.float32)
    final = np.array([np.inf, 0], np.float32)
    offsets = np.array([0, 1, 1], np.int64)
    folder.mkdir(parents=True)
    write_fst(Fst(0, final, offsets, one, one, weight, one), folder / "HCLG.fst")
    (folder / "words.txt").write_text("<eps> 0\na 1\n")


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    """A made-up experiment that lacks nothing."""
    root = write_corpus(tmp_path)
    write_graph(root / "exp" / "tri" / "graph")
    return root


def ask(root: Path, *more: str, until: int = 7) -> int:
    where = settings(root, "data.graph=exp/tri/graph", "score.metric=wer", *more)
    return main(
        ["doctor", str(CONF / "base.yaml"), *where, f"--until={until}", f"--out={root}/new"]
    )


def drop_graph(root: Path) -> None:
    (root / "exp/tri/graph/HCLG.fst").unlink()


def drop_words(root: Path) -> None:
    (root / "exp/tri/graph/words.txt").unlink()


def shorten_words(root: Path) -> None:
    (root / "exp/tri/graph/words.txt").write_text("<eps> 0\n")


def take_another_model(root: Path) -> None:
    """As many transition-ids, of other phones."""
    write_transition_model(build_monophone_model((2, 3, 9), 2), root / "exp/tri/final.mdl")


def drop_text(root: Path) -> None:
    (root / "data/test/text").unlink()


def shorten_text(root: Path) -> None:
    (root / "data/dev/text").write_text("dev0-0 a\n")


def shorten_features(root: Path) -> None:
    scp = root / "data/test/feats.scp"
    scp.write_text("".join(scp.read_text().splitlines(keepends=True)[1:]))


def drop_archive(root: Path) -> None:
    (root / "data/test/feats.ark").rename(root / "data/test/other.ark")


def drop_test_set(root: Path) -> None:
    (root / "data/test").rename(root / "data/elsewhere")


LACKS = [
    (drop_graph, 5, "graph: ", "HCLG.fst"),
    (drop_words, 5, "words.txt is missing", "copy it from the language directory"),
    (shorten_words, 5, "word 1 is not in the words.txt", "take both from one folder"),
    (take_another_model, 5, "has other transitions than", "build the graph with that model"),
    (drop_text, 6, "test/text is missing", "write it"),
    (shorten_text, 6, "data/dev: 3 of 4 lack text: dev0-1", "write what they say"),
    (shorten_features, 4, "for 1 of 3 utterances: test0-0", "by --set data.max_skipped=0.34"),
    (drop_archive, 4, "feats.ark", "correct the table, or give the new place"),
    (drop_test_set, 4, "test features: none of these exists", "name the directory"),
]


def test_nothing_is_said_where_nothing_lacks(
    experiment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    assert ask(experiment) == 0
    assert capsys.readouterr().out == ""


def test_one_stage_is_named_alone(experiment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (experiment / "data/train/feats.scp").unlink()
    assert ask(experiment, until=3) == 1
    assert "would keep stage 3 from running" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("damage", "stage", "says", "remedy"), LACKS, ids=lambda v: getattr(v, "__name__", "")
)
def test_what_a_later_stage_lacks_is_an_error_with_its_remedy(
    damage: Callable[[Path], None],
    stage: int,
    says: str,
    remedy: str,
    experiment: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(experiment)
    assert ask(experiment) == 1
    printed = capsys.readouterr()
    errors = [line for line in printed.out.splitlines() if line.startswith("error")]
    assert any(says in line and remedy in line for line in errors), printed.out
    assert "would keep the stages 3 to 7 from running" in printed.err
    assert ask(experiment, until=max(3, stage - 1)) == 0, "a stage before it does not need it"


def test_references_of_several_directories_are_read_together(experiment: Path) -> None:
    both = "data.dev.features_all_of=[data/dev, data/test]"
    assert ask(experiment, both, until=6) == 0
    (experiment / "data/test/text").write_text("test0-0 a\n")
    assert ask(experiment, both, until=6) == 1


def test_words_that_the_graph_spells_otherwise_are_told_before_anything_is_trained(
    experiment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (experiment / "exp/tri/graph/words.txt").write_text("<eps> 0\na 1\nno 2\nyes 3\n")
    dev = experiment / "data/dev/text"
    utterances = [line.split()[0] for line in dev.read_text().splitlines()]
    for said, warned in (("yes no", False), ("YES no", True)):
        dev.write_text("".join(f"{utt} {said}\n" for utt in utterances))
        assert ask(experiment) == 0
        warnings = [line for line in capsys.readouterr().out.splitlines() if "warning" in line]
        assert any("dev reference" in line and ": yes;" in line for line in warnings) == warned


def test_scoring_by_time_needs_an_stm_and_rules(
    experiment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(experiment, "score.glm=english") == 1
    assert "has an stm for dev; make one, or set score.glm to null" in capsys.readouterr().out
    for name in ("dev", "test"):
        (experiment / "data" / name / "stm").write_text("rec 1 speaker 0 1 <o> a b\n")
    assert ask(experiment, "score.glm=english") == 0
    assert ask(experiment, "score.glm=english2") == 1
    assert "english2: No such file or directory; name a GLM file, or english" in (
        capsys.readouterr().out
    )


def test_room_and_figures(
    experiment: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_inputs, "find_spec", lambda name: None)
    assert ask(experiment) == 0, "a report without figures is one"
    assert "pip install matplotlib" in capsys.readouterr().out
    monkeypatch.setattr(stage_inputs, "CHECKPOINTS", 2**60)
    assert ask(experiment) == 1
    assert "free some space, or choose another --out" in capsys.readouterr().out
