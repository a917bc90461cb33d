"""Bad input through the command line: one line that names it, status 1, old results untouched."""

import gzip
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.cli import main
from bayes_asr.kaldi_io.initial_mdl import build_monophone_model
from bayes_asr.kaldi_io.integers import write_int_vectors
from bayes_asr.kaldi_io.mdl import write_transition_model
from tests.support.places import CONF
from tests.support.small_corpus import (
    MODEL,
    made_up,
    settings,
    write_alignments,
    write_corpus,
    write_data_dir,
)

TRAIN = Path("data") / "train"


def truncated_ark(root: Path) -> None:
    ark = root / TRAIN / "feats.ark"
    ark.write_bytes(ark.read_bytes()[:-30])


def no_gzip(root: Path) -> None:
    (root / "exp" / "ali" / "ali.1.gz").write_bytes(b"train0-0 1 2 3\n")


def truncated_gzip(root: Path) -> None:
    path = root / "exp" / "ali" / "ali.2.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-7]))


def long_alignment(root: Path) -> None:
    _, alignments = made_up("train", 12)
    alignments["train1-4"] = np.append(alignments["train1-4"], 1).astype(np.int32)
    write_alignments(root / "exp" / "ali", alignments.items())


def foreign_transition_id(root: Path) -> None:
    write_int_vectors(
        [("train0-0", np.array([1, 99], np.int32))], root / "exp" / "ali" / "ali.1.gz"
    )


def pdf_out_of_range(root: Path) -> None:
    """The graph of a bigger model, as its final.mdl: alignments of fewer pdfs than dev's."""
    write_transition_model(build_monophone_model((2, 3), 2), root / "exp" / "ali" / "final.mdl")


def damaged_model(root: Path) -> None:
    path = root / "exp" / "ali" / "final.mdl"
    path.write_bytes(path.read_bytes()[:60])


def not_a_number(root: Path) -> None:
    put_value(root, "nan")


def no_square(root: Path) -> None:
    put_value(root, "3e38")


def put_value(root: Path, text: str) -> None:
    features, _ = made_up("train", 12)
    write_data_dir(root / TRAIN, features)
    ark = root / TRAIN / "feats.ark"
    raw, value = ark.read_bytes(), features["train2-7"][3, 2].tobytes()
    assert raw.count(value) == 1
    ark.write_bytes(raw.replace(value, np.float32(text).tobytes()))


def missing_ark(root: Path) -> None:
    (root / TRAIN / "feats.ark").unlink()


def missing_model(root: Path) -> None:
    (root / "exp" / "ali" / "final.mdl").unlink()


def missing_table(root: Path) -> None:
    (root / TRAIN / "utt2spk").unlink()


def stranger(root: Path) -> None:
    scp = root / TRAIN / "feats.scp"
    scp.write_text(scp.read_text().replace("train3-9 ", "who-9 "))


def empty_scp(root: Path) -> None:
    (root / TRAIN / "feats.scp").write_text("")


LAST = MODEL.num_transition_ids
DAMAGES: dict[Callable[[Path], None], tuple[str, ...]] = {
    truncated_ark: ("feats.ark", "train3-11", "truncated or damaged"),
    no_gzip: ("ali.1.gz", "ot a gzip"),
    truncated_gzip: ("ali.2.gz", "train3-11", "truncated"),
    long_alignment: ("feats.ark", "train1-4 has", "frames of features, but", "labels in"),
    foreign_transition_id: ("ali.1.gz", "train0-0", "transition-id 99", f"1 to {LAST}"),
    pdf_out_of_range: ("train", "has transition-id", "final.mdl has 1 to 8"),
    damaged_model: ("ali/final.mdl", "offset"),
    not_a_number: ("feats.ark", "train2-7 holds nan at frame 3, column 2"),
    no_square: ("feats.ark", "train2-7 holds 3e+38 at frame 3, column 2"),
    missing_ark: ("feats.ark", "cannot open train0-0", "No such file"),
    missing_model: ("ali/final.mdl", "No such file"),
    missing_table: ("train/utt2spk", "No such file"),
    stranger: ("train/feats.scp", "not in utt2spk", "who-9"),
    empty_scp: ("train/feats.scp", "there are no features"),
}


def complaint(capsys: pytest.CaptureFixture[str], verb: str) -> str:
    """The error, which is the last line on stderr and the only one of its kind."""
    lines = capsys.readouterr().err.splitlines()
    errors = [line for line in lines if line.startswith(f"bayes-asr {verb}: error: ")]
    assert errors == lines[-1:]
    return errors[0]


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.suffix != ".log"}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_training_names_what_is_wrong_and_keeps_the_old_run(
    damage: Callable[[Path], None],
    small_run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    before = contents(run)
    root = write_corpus(tmp_path / "corpus")
    damage(root)
    arguments = ["train", str(CONF / "base.yaml"), *settings(root), f"--out={run}", "--new"]
    assert main(arguments) == 1
    said = complaint(capsys, "train")
    assert [part for part in DAMAGES[damage] if part not in said] == [], said
    assert contents(run) == before


@pytest.mark.parametrize(
    "damage", [truncated_ark, not_a_number, missing_ark, stranger], ids=lambda d: d.__name__
)
def test_forward_names_what_is_wrong_and_keeps_the_old_archive(
    damage: Callable[[Path], None],
    small_run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root, out = write_corpus(tmp_path / "corpus"), tmp_path / "out"
    arguments = ["forward", str(small_run), f"--data={root / TRAIN}", f"--out={out}"]
    assert main(arguments) == 0
    before = contents(out)
    damage(root)
    capsys.readouterr()
    assert main(arguments) == 1
    said = complaint(capsys, "forward")
    assert [part for part in DAMAGES[damage] if part not in said] == [], said
    assert contents(out) == before


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["train", "absent.yaml", "--out=new"], ("No such file", "absent.yaml")),
        (["train", "bad.yaml", "--out=new"], ("bad.yaml, line 2", "train.epoch;", "train.epochs?")),
        (
            ["train", "good.yaml", "--set=model.unit=gruu", "--out=new"],
            ("model.unit is gruu", "known"),
        ),
        (["train", "good.yaml", "--set=data.dir=absent", "--out=new"], ("none of these exists",)),
        (["forward", "absent", "--on=dev"], ("absent", "not a run directory")),
        (["forward", ".", "--data=x"], ("--data needs --out",)),
        (["forward", "damaged", "--on=dev"], ("damaged/best.pt", "cannot be read as a checkpoint")),
        (["forward", "without", "--on=dev"], ("without/best.pt", "there is no checkpoint")),
        (
            ["decode", "--loglikes=x", "--graph=x", "--model=x", "--out=new", "--wip=0.25"],
            ("insertion penalty 0.25: write it with one decimal",),
        ),
        (["doctor", "absent.yaml"], ("No such file", "absent.yaml")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_unusable_arguments(
    arguments: list[str],
    parts: tuple[str, ...],
    small_run: Path,
    small_corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_text("train:\n  epoch: 3\n")
    Path("good.yaml").write_text(f"data: {{dir: {small_corpus}}}\n")
    for name in ("damaged", "without"):
        Path(name).mkdir()
        shutil.copy(small_run / "config.yaml", name)
    Path("damaged/best.pt").write_bytes((small_run / "best.pt").read_bytes()[:500])
    before = set(tmp_path.rglob("*.[ap]*"))
    assert main(arguments) == 1
    said = complaint(capsys, arguments[0])
    assert [part for part in parts if part not in said] == [], said
    assert set(tmp_path.rglob("*.[ap]*")) == before


def test_features_of_another_size_are_refused_by_forward(
    small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_data_dir(tmp_path, {"a-1": np.ones((4, 7), np.float32)})
    assert main(["forward", str(small_run), f"--data={tmp_path}", f"--out={tmp_path / 'o'}"]) == 1
    said = complaint(capsys, "forward")
    assert "a-1 has 7 dimensions, but the network was trained on 5" in said
    assert "feats.ark" in said


def test_run_of_another_configuration_is_kept(
    small_run: Path, small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run")
    before = contents(run)
    options = settings(small_corpus, "model.units=9")
    assert main(["train", str(CONF / "base.yaml"), *options, f"--out={run}"]) == 1
    assert "model.units is 8 in this run, but 9 now" in complaint(capsys, "train")
    assert contents(run) == before


def test_decode_names_the_forward_that_it_needs(
    small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(small_run, tmp_path / "run", ignore=shutil.ignore_patterns("forward_*"))
    graph = tmp_path / "graph"
    graph.mkdir()
    given = [f"--graph={graph}", f"--model={graph}", f"--out={tmp_path / 'out'}"]
    config = run / "config.yaml"
    graphs = f"  graph: ['{graph}']"
    text = config.read_text()
    config.write_text(re.sub(r"^  graph:.*(?:\n  - .*)*", graphs, text, flags=re.MULTILINE))
    assert main(["decode", str(run), "--on=dev", *given]) == 1
    said = complaint(capsys, "decode")
    assert f"loglikes.ark: not there; run bayes-asr forward {run} --on dev first" in said
    assert not (tmp_path / "out").exists()
