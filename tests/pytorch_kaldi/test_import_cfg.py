"""Configurations of pytorch-kaldi: what they say in our keys, and what is wrong with them."""

import configparser
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.config.changes import describe_presets
from bayes_asr.config.merge import load
from bayes_asr.config.schema import differences
from bayes_asr.pytorch_kaldi.experiment import LABELS, STREAM, read_experiment
from bayes_asr.pytorch_kaldi.notes import IDLE, SAID
from bayes_asr.pytorch_kaldi.sections import read_sections
from bayes_asr.pytorch_kaldi.train_section import OF_SCHEDULE, OPTIMIZER_OPTIONS
from bayes_asr.pytorch_kaldi.translation import DECODING, translate
from tests.support.places import CONF, ROOT
from tests.support.their_cfg import CFG, write

PARTS = ("fea", "lab", "cw_")  # of the blocks of a set


def translated(folder: Path, *changes: tuple[str, str]) -> tuple[dict[str, Any], str]:
    """Our configuration, read back, and what is said."""
    found = translate(read_experiment(write(folder, *changes)))
    return yaml.safe_load(yaml.safe_dump(found.keys)), "\n".join(found.notes.lines())


@pytest.mark.parametrize("after", ["; another\n", "\n", "\n  margin = 1\n"])
def test_sections_are_those_of_configparser(after: str, tmp_path: Path) -> None:
    path = write(tmp_path, ("[exp]\n", f"# a comment\n[exp]\n{after}"))
    oracle = configparser.ConfigParser(interpolation=None)
    oracle.read(path)
    found = read_sections(path)
    assert list(found) == oracle.sections()
    for name, section in found.items():
        assert list(section.options) == list(oracle[name])
        for key, option in section.options.items():
            assert option.text.split() == oracle[name][key].split()


def test_every_part_is_carried_over(tmp_path: Path) -> None:
    found, _ = translated(tmp_path)
    assert found["seed"] == 7
    assert found["data"]["train"] == {
        "features": ["data/train"],
        "streams": {"fbank": ["fbank/train"]},
        "alignments": ["exp/ali_train"],
    }
    assert found["data"]["dev"]["alignments"] == ["exp/ali_dev"]
    assert found["data"]["test"] == {
        "features": ["data/test"],
        "streams": {"fbank": ["fbank/test"]},
    }
    assert found["data"]["graph"] == ["exp/graph"]
    assert found["features"] == {"left_context": 1, "right_context": 2, "cmvn": "mean", "deltas": 2}
    of_fbank = {"left_context": 0, "right_context": 0, "cmvn": "mean-variance"}
    assert found["streams"] == {"fbank": of_fbank}
    assert found["decode"] == {
        "min_active": 100,
        "max_active": 5000,
        "beam": 12.5,
        "lattice_beam": 7.0,
        "acoustic_scale": 0.2,
        "lm_weights": [2, 3, 4, 5],
    }


def test_a_second_stream_by_our_name_of_the_first_gets_another(tmp_path: Path) -> None:
    found, _ = translated(tmp_path, ("fbank", "features"))
    assert found["data"]["train"]["features"] == ["data/train"]
    assert found["data"]["train"]["streams"] == {"features2": ["features/train"]}
    assert [*found["streams"]] == ["features2"]
    assert found["model"]["stack"][0]["reads"] == ["features", "features2"]


def test_the_network_is_a_stack(tmp_path: Path) -> None:
    found, _ = translated(tmp_path)
    norm, first, second = found["model"]["stack"]
    assert norm == {
        "name": "rnn_bn0",
        "reads": ["features", "fbank"],
        "kind": "norm",
        "norm": "batch",
    }
    shared = {
        "kind": "recurrent",
        "unit": "li-gru",
        "bidirectional": True,
        "tied_directions": True,
        "dropout_scaling": "pytorch-kaldi",
        "input_init": "uniform",
    }
    of_model = {key: found["model"][key] for key in shared if key != "kind"}
    assert {"kind": "recurrent", **of_model} == shared
    own = {"units": 6, "activation": "relu", "norm": "batch", "dropout": 0.2}
    assert {**first, **of_model} == {"name": "rnn_1", "reads": ["rnn_bn0"], **shared, **own}
    own = {"units": 4, "activation": "tanh", "norm": "none", "dropout": 0.1}
    assert {**second, **of_model} == {"name": "rnn_2", "reads": ["rnn_1"], **shared, **own}
    assert found["model"]["heads"] == {"pdfs": "rnn_2", "monophones": "rnn_2"}


def test_training_is_carried_over(tmp_path: Path) -> None:
    found, said = translated(tmp_path)
    assert found["train"] == {
        "epochs": 6,
        "device": "cpu",
        "noise": 0.0,
        "tempo": 0.0,
        "batch_sequences": {1: 4, 3: 2},
        "max_frames": {1: 100, 2: 200, 3: 400, 4: 500},
        "optimizer": "rmsprop",
        "momentum": 0.0,
        "alpha": 0.9,
        "epsilon": 1e-7,
        "centered": False,
        "weight_decay": 0.0,
        "learning_rate": 0.0004,
        "schedule": "newbob",
        "halving_factor": 0.5,
        "improvement_threshold": 0.001,
        "monophone_weight": 0.5,
        "layers": {"pdfs": {"learning_rate_factor": 2.0}, "monophones": {"optimizer": "sgd"}},
    }
    assert "not 48: heads have as many outputs as there are labels" in said


def test_a_rate_of_each_epoch_is_a_list(tmp_path: Path) -> None:
    found, said = translated(
        tmp_path, ("arch_lr = 0.0004\narch_halv", "arch_lr = 0.4*2|0.2*4\narch_halv")
    )
    assert found["train"]["schedule"] == "list"
    assert found["train"]["learning_rates"] == {1: 0.4, 3: 0.2}
    assert "head2: arch_lr: follows the schedule of rnn" in said


def test_dropout_of_each_epoch_is_carried_over(tmp_path: Path) -> None:
    found, said = translated(
        tmp_path, ("ligru_drop = 0.2,0.1", "ligru_drop = 0.15*1|0.20*2|0.1*3,0.1*6")
    )
    _, first, second = found["model"]["stack"]
    assert (first["dropout"], second["dropout"]) == ({1: 0.15, 2: 0.2, 4: 0.1}, 0.1)
    assert "dropout" not in said


@pytest.mark.parametrize(
    ("loss", "weights"),
    [
        ("avg(cd,mono)", (1, 1)),
        ("sum(cd,mono)", (1, 1)),
        ("sum(mono_w,cd)", (1, 0.5)),
        ("sum_constant(cd,3)", (1, 0)),
        ("avg(cd,mono_w)", (1, 0.5)),
    ],
)
def test_weights_of_losses_are_those_of_the_gradient(
    loss: str, weights: tuple[float, float], tmp_path: Path
) -> None:
    """d loss_final / d cost, relative to that of the pdfs."""
    found, said = translated(tmp_path, ("loss_final=sum(cd,mono_w)", f"loss_final={loss}"))
    assert found["train"]["monophone_weight"] == pytest.approx(weights[1])
    assert ("all losses are divided by 0.5" in said) == loss.startswith("avg")


def test_labels_of_another_tree_are_a_target_of_their_own(tmp_path: Path) -> None:
    """The second label set is of other alignments, and of pdfs."""
    mono = "\tlab_name=lab_mono\n\tlab_folder=exp/ali_{}\n\tlab_opts=ali-to-phones --per-frame=true"
    other = "\tlab_name=lab_mono\n\tlab_folder=exp/tree2_{}\n\tlab_opts=ali-to-pdf"
    changes = [(mono.format(name), other.format(name)) for name in ("train", "dev", "test")]
    found, _ = translated(tmp_path, *changes)
    assert found["data"]["train"]["labels"] == {"lab_mono": ["exp/tree2_train"]}
    assert found["train"]["target_weights"] == {"lab_mono.pdfs": 0.5}
    assert found["train"]["monophone_weight"] == 0.0
    assert set(found["model"]["heads"]) == {"pdfs", "lab_mono.pdfs"}


def test_a_table_of_another_name_is_made_a_directory(tmp_path: Path) -> None:
    found, said = translated(tmp_path, ("data/train/feats.scp", "data/train/feats_mfcc.scp"))
    assert found["data"]["train"]["features"] == ["data/train/feats_mfcc"]
    assert "cp data/train/feats_mfcc.scp data/train/feats_mfcc/feats.scp" in said


def test_a_broken_command_is_joined_and_said(tmp_path: Path) -> None:
    found, said = translated(tmp_path, ("ark:c ark:- ark:- | add", "ark:c ark\n:- ark:- | add"))
    assert found["features"]["deltas"] == 2
    assert "[dataset1] fea: broken commands are joined: line 13" in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("multi_gpu = True", "multi_gpu = True\nwidth = 3"),
            "[exp] width = 3: has no counterpart",
        ),
        (("seed = 7", "seed = 7"), "[exp] multi_gpu = True: start processes by torchrun"),
        (
            ("add-deltas", "splice-feats"),
            "mfcc: splice-feats --delta-order=2 ark:- ark:-: no command",
        ),
        (("relu,tanh", "relu,gelu"), "activation gelu has no counterpart; relu is taken"),
        (("orthinit = True", "orthinit = False"), "ligru_orthinit: recurrent weights begin"),
        (("liGRU\n", "SRU\n"), "class SRU has no counterpart; write model yourself"),
        (("sum(cd,mono_w)", "mse(out1,mfcc)"), "loss_final: mse is no loss of ours"),
        (("concatenate(", "mult("), "mult of values has no counterpart; write model yourself"),
    ],
)
def test_what_has_no_counterpart_is_said(
    change: tuple[str, str], said: str, tmp_path: Path
) -> None:
    assert said in translated(tmp_path, change)[1]


@pytest.mark.parametrize("change", [("liGRU\n", "SRU\n"), ("concatenate(", "mult(")])
def test_a_network_that_is_not_here_is_not_replaced_by_the_default_one(
    change: tuple[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out.yaml"
    assert main(["import-cfg", str(write(tmp_path, change)), "--out", str(out)]) == 0
    with pytest.raises(InputError, match=r"out\.yaml.*model\.unit"):
        load([out])
    written = tmp_path / "model.yaml"
    written.write_text("model: {unit: li-gru}\n")
    assert load([out, written]).model.unit == "li-gru"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("compute(rnn,both)", "compute(rn,both)"), "no network is called rn; did you mean rnn?"),
        (
            ("compute(rnn,both)", "compute(rnn,bot)"),
            "no stream or result is called bot; did you mean",
        ),
        (("cost_nll(out2,lab_cd)", "cost_nll(out2,lab)"), "no label is called lab; did you mean"),
        (("=sum(cd,mono_w)", "=som(cd,mono_w)"), "no operation is called som; did you mean sum?"),
        (("=sum(cd,mono_w)", "=sum(cd)"), "sum has 1 arguments, not 2"),
        (("=sum(cd,mono_w)", "=__import__('os').system('x')"), "not NAME=OPERATION"),
        (("(mono,0.5)", "(mono,nan)"), "nan is not a finite number"),
        (("sum(cd,mono_w)", "mult_constant(cd,0)"), "the cost of pdfs has no weight in loss_final"),
        (("= 0.0004\n", "= 0\n"), "arch_lr: begins with 0"),
        (("\tlab_folder=exp/ali_dev\n", ""), "there is no lab_folder of lab_cd, which is learnt"),
        (("loss_final=", "loss="), "no line defines loss_final"),
        (("mono_w=", "mono="), "mono is the name of two values"),
        (
            ("arch_class = liGRU", "arch_class = liGRUU"),
            "liGRUU is no class of pytorch-kaldi; known: liGRU, GRU",
        ),
        (("0.2,0.1", "0.2"), "1 values for 2 layers; give one for each"),
        (("4*2 | 2*4", "4*2 | 2"), "4*2 | 2 is of 3 epochs, but N_epochs_tr is 6"),
        (
            ("train_with = train", "train_with = trian"),
            "no set is called trian; did you mean train?",
        ),
        (("train_with = train", "train_with = train, train"), "train is there twice"),
        (("cw_left=1", "cw_left=x"), "'x' is not a whole number"),
        (("\tcw_left=1\n", ""), "mfcc has no cw_left"),
        (("\tcw_left=1\n", "\tcontext=1\n"), "context is none of fea_name, fea_lst"),
        (("[batches]", "[batch]"), "there is no section [batches]"),
        (("seed = 7\n", "seed 7\n"), "line 2: neither [section] nor name=value: seed 7"),
        (("seed = 7\n", "seed = 7\nseed = 8\n"), "line 3: seed is there twice"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    change: tuple[str, str], message: str, tmp_path: Path
) -> None:
    path = write(tmp_path, change)
    with pytest.raises(InputError) as caught:
        translate(read_experiment(path))
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_lines_in_messages_are_those_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, ("loss_final=sum(cd,mono_w)", "loss_final=som(cd,mono_w)"))
    number = path.read_text().splitlines().index("\tloss_final=som(cd,mono_w)") + 1
    with pytest.raises(InputError, match=f"theirs.cfg, line {number}: "):
        read_experiment(path)


def test_the_command_writes_yaml_and_says_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "ours.yaml"
    assert main(["import-cfg", str(write(tmp_path)), f"--out={out}"]) == 0
    said = capsys.readouterr().out
    assert "[exp] out_folder = exp/x: give the folder to train: --out" in said
    assert "labels: theirs are shifted by the smallest of each chunk" in said
    assert yaml.safe_load(out.read_text())["train"]["epochs"] == 6
    assert "&id" not in out.read_text()
    assert main(["import-cfg", str(tmp_path / "gone.cfg")]) == 1
    assert "gone.cfg" in capsys.readouterr().err


def test_batches_of_frames_are_pieces_of_utterances(tmp_path: Path) -> None:
    """Theirs counts frames where no network reads sequences."""
    each = "arch_freeze = False"
    changes = (each, f"{each}\narch_seq_model = False"), ("4*2 | 2*4", "128*2 | 64*4")
    found, said = translated(tmp_path, *changes)
    assert found["train"]["batch_sequences"] == 32
    assert found["train"]["batch_frames"] == 128
    assert found["train"]["max_frames"] == {1: 4, 3: 2}
    assert "batch_size_train = 128*2 | 64*4: its frames are drawn one by one there" in said


def test_options_of_other_optimizers_are_those_of_the_first_that_has_them(tmp_path: Path) -> None:
    adam = "arch_opt = sgd\nopt_betas = 0.8,0.9\nopt_amsgrad = True\nopt_alpha = 0.5"
    found, said = translated(tmp_path, ("arch_opt = sgd", adam.replace("sgd", "adam")))
    assert found["train"]["betas"] == [0.8, 0.9]
    assert found["train"]["amsgrad"] is True
    assert found["train"]["alpha"] == 0.9
    assert found["train"]["layers"]["monophones"] == {"optimizer": "adam-l2"}
    assert "head3: opt_alpha = 0.5: is one for all layers: 0.9" in said


def test_the_semantics_of_theirs_are_asked_for_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "ours.yaml"
    cfg = str(write(tmp_path))
    assert main(["import-cfg", cfg, f"--out={out}"]) == 0
    assert describe_presets([out]) == []
    plain = load([out])
    assert main(["import-cfg", cfg, f"--out={out}", "--like-theirs"]) == 0
    (said,) = describe_presets([out])
    assert said.startswith(str(CONF / "pytorch-kaldi.yaml is on: model.tied_directions True"))
    assert "train.max_gradient_norm 1000000000.0" in said
    changed = set(differences(plain, load([out])))
    assert {"train.max_gradient_norm", "model.kinds.mlp.bias"} < changed
    capsys.readouterr()


PAGE = ROOT / "docs" / "pytorch-kaldi-options.md"
OPTION = re.compile(r"^\s*(?P<name>[A-Za-z]\w*)\s*=", re.MULTILINE)


def documented() -> set[str]:
    """The options that the page names in the first column of its tables."""
    rows = re.findall(r"^\| (`[^|]*) \|", PAGE.read_text().partition("## Classes")[0], re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_the_page_names_every_option_that_is_known_here() -> None:
    known = {*IDLE, *SAID, *OF_SCHEDULE, *OPTIMIZER_OPTIONS}
    known |= {*DECODING, *STREAM, *LABELS, *(name.lower() for name in OPTION.findall(CFG))}
    values = {"both", "out1", "out2", "out3", "cd", "mono", "mono_w", "loss_final", "err_final"}
    assert known - values <= documented()


def test_the_page_names_every_option_of_theirs() -> None:
    if not shipped():
        pytest.skip("PYTORCH_KALDI does not name a clone of mravanelli/pytorch-kaldi")
    theirs = set()
    for path in shipped():
        for section in read_sections(path).values():
            theirs |= set(section.options)
            fields = (name for name in OPTION.findall(path.read_text()) if name[:3] in PARTS)
            theirs |= set(fields)
    for path in Path(os.environ["PYTORCH_KALDI"], "proto").glob("*.proto"):
        theirs |= {name.lower() for name in OPTION.findall(path.read_text())}
    assert theirs <= documented()


def shipped() -> list[Path]:
    """The configurations of a clone."""
    return sorted(Path(os.environ.get("PYTORCH_KALDI", "/nowhere"), "cfg").rglob("*.cfg"))


def test_all_shipped_configurations_are_read() -> None:
    if not shipped():
        pytest.skip("PYTORCH_KALDI does not name a clone of mravanelli/pytorch-kaldi")
    assert len(shipped()) >= 36
    without = {"SRU", "QLSTM", "fusionRNN_jit"}
    for path in shipped():
        experiment = read_experiment(path)
        found = translate(experiment).keys
        kinds = {one.kind for one in experiment.architectures.values()}
        assert ("stack" in found["model"]) == (
            not kinds & without and "autoencoder" not in path.name
        )
        assert len(operations := experiment.operations) == len(list_operations(path)), operations


def list_operations(path: Path) -> list[str]:
    """The operations, by configparser where it can read the file."""
    oracle = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        oracle.read(path)
        return oracle["model"]["model"].split()
    except configparser.ParsingError:
        return [line for line in path.read_text().splitlines() if "(" in line and "=" in line]
