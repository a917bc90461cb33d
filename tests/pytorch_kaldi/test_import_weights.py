"""bayes-asr import-weights: a run whose log-likelihoods are those of pytorch-kaldi's equations."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import bayes_asr
from bayes_asr.cli import main
from bayes_asr.config.merge import load
from bayes_asr.kaldi_io.ark import iter_matrices
from bayes_asr.recipe.doctor.training_data import check_corpus
from bayes_asr.train.runs import checkpoint
from bayes_asr.train.start import train
from tests.pytorch_kaldi.test_conversion import HEAD, ligru, save
from tests.support import their_cfg, their_networks
from tests.support.small_corpus import DIMENSIONS, MODEL, made_up
from tests.support.training_runs import config_of

COUNTS = np.arange(MODEL.num_pdfs) + 1.5


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training of theirs on the small corpus: conf.cfg and exp_files."""
    folder = tmp_path_factory.mktemp("theirs")
    options, state = ligru()
    cfg = their_cfg.write_networks(folder, ("liGRU", options), ("MLP", HEAD))
    text = cfg.read_text().replace("exp/ali_train", "exp/ali")
    for option in (their_cfg.CMVN, their_cfg.DELTAS):
        text = text.replace(option, "")
    text = text.replace("cw_left=1", "cw_left=0").replace("cw_right=2", "cw_right=0")
    counts = folder / "exp_files" / "forward_out2_lab_cd.count"
    text = text.replace("counts_from = lab_cd", f"counts_from = {counts}")
    (folder / "conf.cfg").write_text(text)
    counts.parent.mkdir()
    counts.write_text(f" [ {' '.join(map(str, COUNTS))} ]\n")
    pdfs, inputs = MODEL.num_pdfs, 2 * their_networks.UNITS[-1]
    head = {"wx.0.weight": torch.randn(pdfs, inputs), "wx.0.bias": torch.randn(pdfs)}
    for number, one in enumerate((state, head), 1):
        save(counts.parent / f"final_architecture{number}.pkl", one)
    return folder


def files(theirs: Path) -> list[str]:
    return [str(path) for path in sorted(theirs.glob("exp_files/*.pkl"))]


@pytest.fixture(scope="module")
def run(theirs: Path, small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that is made of it, with no more than the names of the files."""
    folder = tmp_path_factory.mktemp("runs") / "theirs"
    where = f"--set=data.dir={small_corpus}"
    assert main(["import-weights", *files(theirs), str(folder), where]) == 0
    return folder


def compute(theirs: Path, small: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Log-likelihoods by their equations, of features that are normalised by those of train."""
    train_frames = np.concatenate(list(made_up("train", 12)[0].values())).astype(np.float64)
    mean, deviation = train_frames.mean(0), train_frames.std(0)
    state, head = (torch.load(path)["model_par"] for path in files(theirs))
    form = {"batch_norm": True, "bidirectional": True, "activation": "tanh", "dropout": 0.2}
    priors = np.log(COUNTS / COUNTS.sum())
    found = {}
    for utt, matrix in small.items():
        x = torch.tensor((matrix - mean) / deviation).float()
        h = their_networks.compute("liGRU", state, x, **form)
        logits = h @ head["wx.0.weight"].T + head["wx.0.bias"]
        found[utt] = torch.log_softmax(logits, 1).numpy() - priors
    return found


def test_forward_and_load_give_what_theirs_gives(
    run: Path, theirs: Path, small_corpus: Path, tmp_path: Path
) -> None:
    assert DIMENSIONS == their_networks.INPUTS
    features = made_up("dev", 4)[0]
    expected = compute(theirs, features)
    assert main(["forward", str(run), "--on=dev", f"--out={tmp_path}"]) == 0
    found = dict(iter_matrices(tmp_path / "loglikes.ark"))
    assert found.keys() == expected.keys()
    for utt, loglikes in found.items():
        np.testing.assert_allclose(loglikes, expected[utt], rtol=0, atol=1e-5)
    network = bayes_asr.load(run)
    utt, matrix = next(iter(features.items()))
    np.testing.assert_allclose(network(matrix).numpy(), expected[utt], rtol=0, atol=1e-5)


def test_dropout_is_that_of_the_last_epoch(
    theirs: Path, small_corpus: Path, tmp_path: Path
) -> None:
    """Their cfg for forwarding has the dropout of the last epoch, however many ours will have."""
    networks = shutil.copytree(theirs, tmp_path / "theirs")
    text = (networks / "conf.cfg").read_text()
    assert "ligru_drop = 0.2,0.2" in text
    by_epoch = text.replace("ligru_drop = 0.2,0.2", "ligru_drop = 0.5*4|0.1*2,0.2*5|0.0*1")
    (networks / "conf.cfg").write_text(by_epoch)
    where = f"--set=data.dir={small_corpus}"
    for epochs in ([], ["--set=train.epochs=2"]):
        run = tmp_path / f"run{len(epochs)}"
        assert main(["import-weights", *files(networks), str(run), where, *epochs]) == 0
        layers = checkpoint.read(run / "best.pt")["architecture"]["layers"]
        assert [layer["dropout"] for layer in layers] == [0.1, 0.0]


def test_what_the_front_end_or_the_network_lacks_is_printed(
    theirs: Path, small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    networks = shutil.copytree(theirs, tmp_path / "theirs")
    text = (networks / "conf.cfg").read_text()
    assert "fea_opts=" in text
    sliding = "apply-cmvn-sliding --center=true ark:- ark:- |"
    (networks / "conf.cfg").write_text(text.replace("fea_opts=", f"fea_opts={sliding}", 1))
    where = f"--set=data.dir={small_corpus}"
    assert main(["import-weights", *files(networks), str(tmp_path / "run"), where]) == 0
    printed = capsys.readouterr().out
    assert "apply-cmvn-sliding --center=true ark:- ark:-: no command is run: apply it" in printed


def test_a_training_begins_with_it(run: Path, small_corpus: Path, tmp_path: Path) -> None:
    settings = [f"train.init_from=[{{run: {run}}}]", "train.epochs=1", "train.learning_rate=1e-8"]
    train(load([run / "config.yaml"], settings), tmp_path)
    begun = checkpoint.read(run / "best.pt")["model"]
    after = checkpoint.read(tmp_path / "best.pt")["model"]
    for key, weights in begun.items():
        if "running" not in key and "tracked" not in key:
            torch.testing.assert_close(after[key], weights, rtol=0, atol=1e-4)


def test_a_configuration_that_is_there_is_kept(
    run: Path, theirs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (run / "config.yaml").read_text().replace("beam: 12.5", "beam: 9.0")
    (tmp_path / "config.yaml").write_text(text.replace("left_context: 0", "left_context: 1", 1))
    assert main(["import-weights", *files(theirs), str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert f"features.left_context is 1 here, and 0 by {theirs / 'conf.cfg'}" in said
    (tmp_path / "config.yaml").write_text(text)
    counts = tmp_path / "counts"
    counts.write_text(f" [ {' '.join(map(str, COUNTS[::-1]))} ]\n")
    assert main(["import-weights", *files(theirs), str(tmp_path), f"--counts={counts}"]) == 0
    assert load([tmp_path / "config.yaml"]).decode.beam == 9.0
    priors = checkpoint.read(tmp_path / "best.pt")["log_priors"].numpy()
    np.testing.assert_allclose(priors, np.log(COUNTS[::-1] / COUNTS.sum()))


def test_counts_are_found_by_the_label_of_the_first_cfg(
    run: Path,
    theirs: Path,
    small_corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The cfg that a user wrote names a label; theirs puts the path into conf.cfg alone."""
    (counts,) = theirs.glob("exp_files/*.count")
    cfg = tmp_path / "mine.cfg"
    cfg.write_text((theirs / "conf.cfg").read_text().replace(str(counts), "lab_cd"))
    where = [f"--cfg={cfg}", f"--set=data.dir={small_corpus}"]
    assert main(["import-weights", *files(theirs), str(tmp_path / "run"), *where]) == 0
    assert f"priors: by the counts of {counts}" in capsys.readouterr().err
    found, expected = (
        checkpoint.read(r / "best.pt")["log_priors"] for r in (tmp_path / "run", run)
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    networks = shutil.copytree(theirs, tmp_path / "theirs")
    (networks / "exp_files" / counts.name).unlink()
    assert main(["import-weights", *files(networks), str(tmp_path / "other"), *where]) == 0
    assert "priors: by the training alignments" in capsys.readouterr().err
    assert not checkpoint.read(tmp_path / "other" / "best.pt")["log_priors"].equal(expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("liGRU\n", "SRU\n"), "no network here has its layers; bayes-asr import-cfg says why"),
        (None, "conf.cfg: not there; name that of the networks: --cfg FILE.cfg"),
        (("units", "units"), "has a network (best.pt); choose another folder"),
        (("_ali_train", ""), "data.dir or name the directory"),
    ],
)
def test_what_is_lacking_is_said(
    change: tuple[str, str] | None,
    message: str,
    run: Path,
    theirs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if change:
        (tmp_path / "conf.cfg").write_text((theirs / "conf.cfg").read_text().replace(*change))
    target = run if change and change[0] == change[1] else tmp_path / "run"
    where = [f"--cfg={tmp_path / 'conf.cfg'}", f"--set=data.dir={tmp_path}"]
    assert main(["import-weights", *files(theirs), str(target), *where]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run" / "best.pt").exists()


@pytest.mark.parametrize("name", ["wr.1.weight", "wh.0.bias", "bn0.weight"])
def test_tensors_that_the_configuration_does_not_explain_are_refused(
    name: str, theirs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a gate, of a training without batch norm, of a norm of the input; each was left out."""
    networks = shutil.copytree(theirs, tmp_path / "theirs")
    file = Path(files(networks)[0])
    state = torch.load(file)["model_par"]
    norms = {"ln.0.gamma": torch.ones(4), "ln.0.beta": torch.zeros(4)}  # which theirs always has
    save(file, {**state, **norms, name: torch.ones(4)})
    assert main(["import-weights", *files(networks), str(tmp_path / "run")]) == 1
    module, *layer, kind = name.split(".")
    told = f"{module}.{kind}" + "".join(f" of layer {int(number) + 1}" for number in layer)
    assert f"has {told}, which the configuration does not explain" in capsys.readouterr().err
    assert not (tmp_path / "run" / "best.pt").exists()


def test_a_missing_file_is_said_before_what_would_lie_beside_it(
    theirs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [*files(theirs)[:1], str(tmp_path / "nothing.pkl")]
    assert main(["import-weights", *names, str(tmp_path / "run")]) == 1
    assert "nothing.pkl: not there; name a file such as exp_files/" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("entry", "state", "message"),
    [
        ("{run: RUN}", "error", "nothing of RUN fits: layer1: not there"),
        ("{run: RUN, layers: {layer1: net1_9}}", "error", "names net1_9"),
        (
            "{run: RUN, layers: {pdfs: pdfs}}",
            "error",
            "pdfs of RUN does not fit pdfs: it has weight",
        ),
        ("{run: /none}", "error", "/none: not a run directory"),
    ],
)
def test_the_doctor_looks_at_what_a_run_begins_with(
    entry: str,
    state: str,
    message: str,
    run: Path,
    small_corpus: Path,
) -> None:
    settings = ["train.monophone_weight=0", f"train.init_from=[{entry.replace('RUN', str(run))}]"]
    checks = check_corpus(config_of(small_corpus, *settings))
    said = [(check.state, check.message) for check in checks]
    assert any(state == one and message.replace("RUN", str(run)) in text for one, text in said), (
        said
    )
