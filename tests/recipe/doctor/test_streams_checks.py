"""The doctor looks at every stream and every label set before anything is trained."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.cli import main
from tests.recipe.doctor.test_findings import checks_of
from tests.recipe.doctor.test_stage_inputs import write_graph
from tests.support.places import CONF
from tests.support.small_corpus import SETS, made_up, settings, write_alignments, write_data_dir
from tests.support.two_streams import BOTH, other_features, write_both

LABELS = [
    "data.train.labels.again=exp/ali",
    "data.dev.labels.again=exp/ali_dev",
    "train.target_weights.again.pdfs=1",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_both(tmp_path)


def test_streams_and_targets_are_described(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = checks_of(capsys, *settings(root, *BOTH, *LABELS))
    assert status == 0
    said = "5 + 3 dimensions (8 for the network), 6 pdfs, 3 monophones, 6 again.pdfs; 10 utterances"
    assert said in found["train"][0][1]
    counts = "3 utterances, 3 with features, 3 with features of pitch, 3 with text, all headers"
    assert found["test set"][-1][1].startswith(counts)


def cut_dev(root: Path) -> None:
    write_data_dir(root / "other/dev", {u: x[1:] for u, x in other_features("dev").items()})


def cut_test(root: Path) -> None:
    write_data_dir(root / "other/test", {u: x[1:] for u, x in other_features("test").items()})


def lack_test(root: Path) -> None:
    some = {u: x for u, x in other_features("test").items() if u != "test0-2"}
    write_data_dir(root / "other/test", some)


def lengthen_labels(root: Path) -> None:
    """By one, of one utterance."""
    _, aligned = made_up("dev", SETS["dev"])
    longer = {**aligned, "dev0-1": np.append(aligned["dev0-1"], aligned["dev0-1"][-1])}
    write_alignments(root / "exp/longer", longer.items())


@pytest.mark.parametrize(
    ("change", "check", "state", "message"),
    [
        (cut_dev, "training data", "error", "dev0-0 has"),
        (cut_test, "test set", "warning", "frames in the stream pitch"),
        (lack_test, "test set", "warning", "1 of 3 lack features of pitch: test0-2"),
        (lengthen_labels, "training data", "error", " labels, but "),
    ],
)
def test_what_does_not_go_together_is_found(
    change: Callable[[Path], None],
    check: str,
    state: str,
    message: str,
    root: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(root)
    labels = [*LABELS[:1], "data.dev.labels.again=[exp/longer, exp/ali_dev]", *LABELS[2:]]
    status, found = checks_of(capsys, *settings(root, *BOTH, *labels))
    assert status == (state == "error")
    assert any(message in said for how, said in found[check] if how == state), found[check]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lack_test,
            "no features of pitch in {root}/other/test for 1 of 3 utterances: test0-2; more than"
            " data.max_skipped = 0.05 allows: mend them, or skip them by --set"
            " data.max_skipped=0.34",
        ),
        (
            lambda root: write_data_dir(
                root / "other/test", {u: x[:, :2] for u, x in other_features("test").items()}
            ),
            "test0-0 has 2 dimensions, but the training features of pitch have 3; extract",
        ),
    ],
)
def test_what_forward_would_refuse_is_said_before_training(
    change: Callable[[Path], None], message: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_graph(root / "exp/tri/graph")
    where = settings(root, *BOTH, "data.graph=exp/tri/graph", "score.metric=wer")
    asked = ["doctor", str(CONF / "base.yaml"), *where, "--until=7", f"--out={root}/new"]
    assert main(asked) == 0
    change(root)
    assert main(asked) == 1
    assert message.format(root=root) in capsys.readouterr().out
