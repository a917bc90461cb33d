"""Checkpoints that were changed by hand, or made to do harm: each is refused by its entry."""

import io
import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bayes_asr.base.errors import InputError
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.runs.trained_network import read_network
from bayes_asr.train.start import train
from tests.support.training_runs import config_of

NAN = float("nan")


def changed(content: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """The content with another value at keys that have "/" between them; ... takes it away."""
    key, _, below = path.partition("/")
    name = int(key) if isinstance(content, list) else key
    changed_value = changed(content[name], below, value) if below else value
    if isinstance(content, list):
        return [changed_value if i == name else item for i, item in enumerate(content)]
    result = {**content, name: changed_value}
    return {k: v for k, v in result.items() if v is not ...}


@pytest.mark.parametrize(
    ("entry", "value", "said"),
    [
        ("front_ends/features/deltas", -1, "deltas is -1, not a whole number between 0 and 3"),
        ("front_ends/features/left_context", 10**400, "left_context is 1000"),
        ("front_ends/features/right_context", 9**9, "right_context is 387420489"),
        ("front_ends/features/left_context", 7, "5 values are not 8 times"),
        ("front_ends/features/cmvn", "median", "cmvn is 'median'"),
        ("front_ends/features/mean", torch.full((5,), NAN), "mean has numbers that are not fin"),
        ("front_ends/features/mean", torch.zeros(5, dtype=torch.int64), "mean is torch.int64"),
        ("front_ends/features/mean", "zero", "mean is 'zero', not a tensor"),
        ("front_ends/features/deviation", torch.ones(1), r"deviation is torch.float32 \[1\]"),
        ("front_ends/features/deviation", -torch.ones(5), "deviation: -1, not above 0"),
        ("front_ends/features/sound", {"bands": NAN}, "sound is a dict"),
        ("front_ends/features/strange", 1, "not what makes a front end"),
        ("front_ends/other", {}, "front_ends: of features, other"),
        ("log_priors", torch.zeros(6, dtype=torch.int64), "log_priors is torch.int64"),
        ("log_priors", torch.zeros(1), r"log_priors is torch.float32 \[1\]"),
        ("log_priors", [0.0] * 6, "log_priors is a list"),
        ("other_log_priors", {"phones": torch.zeros(6)}, "'phones' is of no part"),
        ("classes", ["a"], "classes: 1 for 6"),
        ("classes", [*"abcde", "a b"], "classes: 'a b' is no word"),
        ("classes", [*"abcde", "\ud800"], "is no word"),
        ("speakers", {"anna": {"x": torch.zeros(1)}}, "speakers: anna: 'x' is of no part"),
        ("model/layers.0.V", ..., "model: 'layers.0.V' is missing"),
        ("model/layers.0.V", torch.zeros(9, dtype=torch.complex64), "other things than tensors"),
        ("model/layers.0.V", torch.zeros(2, 2).to_sparse(), "other things than tensors"),
        ("model/layers.0.V", torch.zeros(2, 8, 16, dtype=torch.int8), "other things than tensors"),
        ("model/layers.0.V", torch.zeros(2, 8, 16, dtype=torch.uint8), "is torch.uint8"),
        ("model/layers.0.V", torch.full((2, 8, 16), NAN), "not finite"),
        ("architecture/layers/0/dropout", "0.2", "layer1: dropout is '0.2', not a number betw"),
        ("architecture/layers/0/units", 10**12, "layer1: units is 1000000000000"),
        ("architecture/layers/0/kind", "os", "layer1: kind is 'os', not one of recurrent"),
        ("architecture/layers/0/options", {"activation": 3}, "layer1: activation is 3"),
        ("architecture/layers/0/strange", 3, "strange is no option of recurrent"),
        ("architecture/streams", {"features": True}, "architecture: streams is a dict"),
        ("architecture/strange", 1, "unexpected keyword"),
        ("format", [], "not a checkpoint of format"),
    ],
)
def test_best_checkpoint_with_a_wrong_entry_is_refused(
    entry: str, value: object, said: str, small_run: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    content = torch.load(run / "best.pt", weights_only=True)
    torch.save(changed(content, entry, value), run / "best.pt")
    with pytest.raises(InputError, match=f"best.pt: .*{said}"):
        read_network(run)


@pytest.mark.parametrize(
    ("entry", "value", "said"),
    [
        ("rate", ..., "rate is missing"),
        ("rate", NAN, "rate is nan"),
        ("totals/frames", -1, "totals: frames is -1"),
        ("totals/skipped", [{"batch": 0}], "totals: skipped: why is missing"),
        ("dev_errors", [0.5], "dev_errors is a list"),
        ("entry", None, "entry is missing, of epoch 2"),
        ("random", torch.zeros(3, dtype=torch.uint8), "random is torch.uint8"),
        ("optimizer", 3, "optimizer is 3"),
        ("inputs", {"a": 1}, "inputs is a dict"),
        ("optimizer/state", {}, None),
        ("optimizer/state", {99: {}}, "state of another optimizer"),
        ("optimizer/param_groups", [], "state of another optimizer"),
    ],
)
def test_last_checkpoint_with_a_wrong_entry_is_refused(
    entry: str,
    value: object,
    said: str | None,
    small_run: Path,
    small_corpus: Path,
    tmp_path: Path,
    messages: Any,
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    (run / "last.prev.pt").unlink()
    content = torch.load(run / "last.pt", weights_only=True)
    torch.save(changed(content, entry, value), run / "last.pt")
    if said is None:
        train(config_of(small_corpus, "train.epochs=3"), run)
        return
    with pytest.raises(InputError) as refused:
        train(config_of(small_corpus, "train.epochs=3"), run)
    assert said in f"{refused.value} {messages()}"


def test_optimizer_state_of_another_shape_is_refused(
    small_run: Path, small_corpus: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    content = torch.load(run / "last.pt", weights_only=True)
    content["optimizer"]["state"][0]["exp_avg"] = torch.zeros(3)
    torch.save(content, run / "last.pt")
    with pytest.raises(InputError, match="state of another optimizer"):
        train(config_of(small_corpus, "train.epochs=3"), run)


def zip_bomb(content: dict[str, Any], path: Path) -> None:
    """A gigabyte of zeros in a megabyte."""
    torch.save(content, path)
    archive = zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED)
    with archive, archive.open("archive/data/999", "w") as file:
        for _ in range(1024):
            file.write(bytes(1 << 20))


def nested(content: dict[str, Any], path: Path) -> None:
    """Lists that hold each other twice, forty times over."""
    value: list[Any] = ["x"]
    for _ in range(40):
        value = [value, value]
    torch.save({**content, "classes": value}, path)


def endless(content: dict[str, Any], path: Path) -> None:
    """A list that holds itself."""
    value: list[Any] = []
    value.append(value)
    torch.save({**content, "classes": value}, path)


def expanded(content: dict[str, Any], path: Path) -> None:
    """One number that stands for a million million."""
    torch.save({**content, "log_priors": torch.zeros(1).expand(10**12)}, path)


def forged(old: bytes, new: bytes) -> Callable[[dict[str, Any], Path], None]:
    """Other bytes in the pickle."""

    def write(content: dict[str, Any], path: Path) -> None:
        torch.save(content, path)
        remade = io.BytesIO()
        with zipfile.ZipFile(path) as archive, zipfile.ZipFile(remade, "w") as result:
            for name in archive.namelist():
                raw = archive.read(name)
                if name.endswith("data.pkl"):
                    assert old in raw
                    raw = raw.replace(old, new, 1)
                result.writestr(name, raw)
        path.write_bytes(remade.getvalue())

    return write


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "said"),
    [
        (zip_bomb, r"its \d+ bytes unpack to \d+"),
        (nested, "its lists hold each other over and over"),
        (endless, "its lists hold each other over and over"),
        (expanded, r"a tensor \[1000000000000\]"),
        (forged(b"collections\nOrderedDict", b"os\nmkdir"), "other things than tensors"),
        # The storage has 240 numbers, and the pickle says 2^31 - 1.
        (forged(b"K\x06tq", b"J\xff\xff\xff\x7ftq"), "of .* bytes"),
        # The table of the unpickler in C would have 2^31 rows.
        (forged(b"q\x00", b"r\xff\xff\xff\x7f"), None),
        (forged(b"\x89h", b"K\x05h"), "requires_grad is 5"),  # in the place of False
    ],
)
def test_checkpoint_that_takes_more_than_its_size_or_has_odd_tensors_is_refused(
    write: Callable[[dict[str, Any], Path], None],
    said: str | None,
    small_run: Path,
    tmp_path: Path,
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    write(torch.load(run / "best.pt", weights_only=True), run / "best.pt")
    if said is None:
        read_network(run)
        return
    with pytest.raises(InputError, match=f"best.pt: .*{said}"):
        read_network(run)


def test_checkpoint_of_files_is_what_torch_reads(small_run: Path) -> None:
    expected = torch.load(small_run / "last.pt", weights_only=True)
    content = checkpoint.read(small_run / "last.pt")
    assert content.keys() == expected.keys()
    for name, weights in expected["model"].items():
        assert weights.dtype == content["model"][name].dtype
        np.testing.assert_array_equal(weights, content["model"][name])
    assert pickle.dumps(content["architecture"]) == pickle.dumps(expected["architecture"])
