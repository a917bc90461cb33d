"""Log-likelihoods, hypotheses and scores of a network that the run no longer has."""

import json
import shutil
from pathlib import Path

import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.decode.forward.network_record import describe_network, read_network_record
from bayes_asr.train.runs.configuration import read_configuration
from bayes_asr.train.runs.directory import RunDirectory
from bayes_asr.train.runs.trained_network import read_network
from tests.support.places import CONF
from tests.support.small_corpus import settings
from tests.support.spoken_corpus import write_spoken_experiment

COUNTS = {"train": 9, "dev": 4, "test": 5}
DECODING = (
    *("data.graph=[graph]", "score.metric=wer", "decode.lm_weights=[1,5]"),
    "decode.insertion_penalties=[0]",
)


def command(*words: object) -> int:
    return main([*map(str, words)])


def train(root: Path, run: Path, *more: str, options: tuple[str, ...] = ()) -> None:
    given = [CONF / "base.yaml", *settings(root, *DECODING, *more), f"--out={run}"]
    assert command("train", *given, *options) == 0


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is scored, and another network of the same shape; not to be changed."""
    root = write_spoken_experiment(tmp_path_factory.mktemp("corpus"), COUNTS)
    train(root, root / "run")
    train(root, root / "other", "seed=2")
    for verb in ("forward", "decode"):
        for name in ("dev", "test"):
            assert command(verb, root / "run", f"--on={name}") == 0
    assert command("score", root / "run") == 0
    return root


@pytest.fixture
def run(corpus: Path, tmp_path: Path) -> Path:
    """A copy of the scored run."""
    return shutil.copytree(corpus / "run", tmp_path / "run")


def replace_network(run: Path, corpus: Path) -> None:
    """What a training does that goes on and finds a better network."""
    shutil.copyfile(corpus / "other/best.pt", run / "best.pt")


def warnings(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines about networks since the last call; others name files that were found."""
    return [line for line in capsys.readouterr().err.splitlines() if "network" in line]


@pytest.mark.slow
def test_nothing_old_is_decoded_or_scored_as_of_a_new_network(
    run: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rates are printed once every set is of the network that is there."""
    train(corpus, run, "seed=2", options=("--new",))
    capsys.readouterr()
    steps = [("score", "decode_dev"), ("decode", "forward_dev"), ("forward", "")]
    steps += [("decode", ""), ("score", "decode_test"), ("decode test", "forward_test")]
    steps += [("forward test", ""), ("score", "decode_test"), ("decode test", ""), ("score", "")]
    for step, refused in steps:
        verb, _, name = step.partition(" ")
        assert not [*run.glob("score_*.json")]
        on = [] if verb == "score" else [f"--on={name or 'dev'}"]
        assert command(verb, run, *on) == (1 if refused else 0), step
        out, err = capsys.readouterr()
        if refused:
            assert not out
            assert f"error: {run / refused}" in err
            assert err.count("error: ") == 1
    records = [json.loads((run / f"decode_{n}/decode.json").read_text()) for n in ("dev", "test")]
    assert {record["network"] for record in records} == {describe_network(run)["network"]}


@pytest.mark.slow
def test_scores_that_outlive_their_network_are_named(
    run: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where they are reported, and where their LM weight is used."""
    verbs = [
        ("report", run, f"--out={tmp_path / 'report'}"),
        ("compare", run, corpus / "run", "--replicates=100"),
        ("find", run, "one"),
    ]
    for words in verbs:
        assert command(*words) == 0
        assert not warnings(capsys)
    replace_network(run, corpus)
    for words in verbs:
        assert command(*words) == 0
        assert len(warnings(capsys)) == 1


def test_the_same_network_elsewhere_is_the_same(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither a copy, which has other times, nor a folder that has moved is refused."""
    moved = run.rename(tmp_path / "moved")
    (moved / "best.pt").touch()
    expected = [(moved / f"score_{name}.json").read_bytes() for name in ("dev", "test")]
    for name in ("dev", "test"):
        assert command("decode", moved, f"--on={name}") == 0
    assert command("score", moved) == 0
    assert not warnings(capsys)
    assert [(moved / f"score_{name}.json").read_bytes() for name in ("dev", "test")] == expected


def test_folders_without_a_record_go_on(
    run: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("dev", "test"):
        (run / f"forward_{name}/forward.json").unlink()
        assert command("decode", run, f"--on={name}") == 0
    replace_network(run, corpus)
    assert command("score", run) == 0
    assert not warnings(capsys)


def remove_network(run: Path) -> None:
    """What a user does who needs room."""
    for checkpoint in run.glob("*.pt"):
        checkpoint.unlink()


def test_without_the_network_only_sets_are_compared(
    run: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    remove_network(run)
    assert command("score", run) == 0
    assert not warnings(capsys)
    replace_network(run, corpus)
    assert command("forward", run, "--on=test") == command("decode", run, "--on=test") == 0
    remove_network(run)
    capsys.readouterr()
    assert command("score", run) == 0
    (warning,) = warnings(capsys)
    assert "dev and test were decoded with different settings (network " in warning


@pytest.mark.slow
def test_other_pdf_counts_are_part_of_what_was_decoded(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = tmp_path / "counts.txt"
    counts.write_text(f"[ {' '.join(['2'] * len(read_network(run).log_priors))} ]\n")
    assert command("forward", run, "--on=test", f"--counts={counts}") == 0
    assert command("decode", run, "--on=test") == 0
    assert "dev was decoded with other settings than test (pdf_counts None and" in (
        capsys.readouterr().err
    )
    assert command("forward", run, "--on=test") == 0
    assert command("decode", run, "--on=test") == 0
    assert "(pdf_counts" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_training_that_began_anew_has_no_rates_yet(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ended in its first epoch, it has left no network, but what the old one gave."""
    assert command("combine", run, run, "--out", tmp_path / "average") == 0
    for name in ("forward", "decode"):
        assert command(name, tmp_path / "average", "--on=dev") == 0
    RunDirectory(run).begin(read_configuration(run), {}, discard=True)
    capsys.readouterr()
    for folder in (run, tmp_path / "average"):
        assert command("score", folder) == command("decode", folder, "--on=dev") == 1
        assert capsys.readouterr().err.count(f"of another network than {folder} has now") == 2
        assert not [*folder.glob("score_*.json")]


@pytest.mark.slow
def test_an_average_is_of_all_its_networks(
    run: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(corpus / "other", tmp_path / "other")
    hashes = []
    for more in ("--weights=1 1", "--weights=1 2", "--average=posteriors"):
        out = tmp_path / more.replace(" ", "-")
        option, _, values = more.partition("=")
        words = (run, tmp_path / "other", option, *values.split(), "--out", out)
        assert command("combine", *words) == 0
        hashes.append(describe_network(out)["network"])
    assert len({*hashes, describe_network(run)["network"]}) == 4
    assert command("forward", out, "--on=dev") == command("decode", out, "--on=dev") == 0
    assert command("score", out) == 0
    replace_network(run, corpus)
    capsys.readouterr()
    for verb, on in (("decode", ["--on=dev"]), ("score", [])):
        assert command(verb, out, *on) == 1
        assert f"of another network than {out} has now" in capsys.readouterr().err


def test_only_the_named_archive_is_taken_whatever_it_is_of(
    run: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a user names is decoded, and says of which network it is."""
    record = read_network_record(run / "forward_dev/loglikes.ark")
    replace_network(run, corpus)
    named = ("--loglikes", run / "forward_dev/loglikes.scp")
    assert command("decode", run, "--on=dev", *named) == 0
    decoded = json.loads((run / "decode_dev/decode.json").read_text())
    assert {"network": decoded["network"]} == record != describe_network(run)
    assert command("score", run) == 1
    second = ("--graph", corpus / "graph", "--out", run.parent / "second")
    assert command("score", run, *second) == 1
    assert "forward_dev/loglikes.ark: of another network" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["[]", "{}", '{"network": 5}', "{"])
def test_a_damaged_record_is_named(content: str, run: Path) -> None:
    (run / "forward_dev/forward.json").write_text(content)
    with pytest.raises(InputError, match=r"forward\.json: not as bayes-asr forward writes it"):
        read_network_record(run / "forward_dev/loglikes.ark")
