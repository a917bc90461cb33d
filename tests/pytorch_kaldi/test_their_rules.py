"""What pytorch-kaldi's own readers refuse or change is refused or changed here."""

import configparser
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayes_asr.base.errors import InputError
from bayes_asr.config.catalogue import UNITS
from bayes_asr.pytorch_kaldi.experiment import read_experiment
from bayes_asr.pytorch_kaldi.sections import read_sections
from bayes_asr.pytorch_kaldi.translation import translate
from tests.pytorch_kaldi.test_accounting import MLP, SINC, outcome
from tests.support.their_cfg import CFG, SET, write, write_networks

EXAMPLES = (
    "[a]\nx = %(y)s/b\ny = 50%%\n",
    "[a]\n  x = 1\n  y = 2\n\t\t\tz\n",
    "[a]\n    x = 1\n  y = 2\n[b]\n z = 3\n",
    "[DEFAULT]\nroot = /r\nx = 0\n[a]\nlist = %(ROOT)s/%(x)s\n[b]\nx = %(root)s\n",
    "[a]\nx = 1\x0cy = 2\x85z\u2028w\n",
    "[a]\nx = a\n  # no part of it\n  b%(y)s\ny = c\n  d\n",
    CFG,
)


@pytest.mark.parametrize("text", EXAMPLES)
def test_values_are_those_of_configparser(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.cfg"
    path.write_text(text)
    oracle = configparser.ConfigParser()
    oracle.read(path, encoding="utf-8")
    found = read_sections(path)
    assert {name: set(section.options) for name, section in found.items()} == {
        name: set(oracle[name]) for name in oracle.sections()
    }
    for name, section in found.items():
        for key, option in section.options.items():
            lines = (line.strip() for line in oracle[name][key].split("\n"))
            assert option.text == "\n".join(line for line in lines if line)


def repeating(count: int) -> str:
    """Options of which each names the next 99 times."""
    return "".join(f"x{n} = {f'%(x{n + 1})s' * 99}\n" for n in range(count))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = %(z)s", "[a] x, line 2: %(z)s: after % the name of an option"),
        ("x = 50%", "[a] x, line 2: %: after % the name"),
        ("x = %(x)s", "%(x)s leads in a circle"),
        ("x = %(y)s\ny = %(x)s", "%(x)s leads in a circle"),
        ("\n".join(f"x{n} = %(x{n + 1})s" for n in range(12)) + "\nx12 = 1", "or is too deep"),
        # A few lines of which each repeats the next are terabytes, or as many empty texts.
        (repeating(8) + "x8 = ab", "has more than 100000 characters"),
    ],
)
def test_references_that_lead_nowhere_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.cfg"
    path.write_text(f"[a]\n{text}\n")
    with pytest.raises(InputError) as caught:
        read_sections(path)
    assert message in str(caught.value)


def test_references_to_nothing_take_no_time(tmp_path: Path) -> None:
    path = tmp_path / "a.cfg"
    path.write_text(f"[a]\n{repeating(9)}x9 =\n")
    assert read_sections(path)["a"].options["x0"].text == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("N_epochs_tr = 6", "N_epochs_tr = 0"), "n_epochs_tr: 0 is below 1"),
        (("= 0.0004\n", "= 0.4*2|0.2*3\n"), "0.4*2|0.2*3 is of 5 epochs, but N_epochs_tr is 6"),
        (("= 0.0004\n", "= 0.4*6|0.2*0\n"), "arch_lr: 0 is below 1"),
        (("= 0.0004\n", "= 0.4*7|0.2*-1\n"), "arch_lr: -1 is below 1"),
        (("= 0.0004\n", "= 0.4*3\n"), "0.4*3 is of 3 epochs"),
        (("= 0.0004\n", "= 4e999\n"), "4e999 is no finite number"),
        (("= 0.0004\n", "= -0.4\n"), "-0.4 is no finite number from 0"),
        (("= 0.0008\n", "= 0\n"), "[architecture2] arch_lr: begins with 0"),
        (("= 0.2,0.1", "= 0.2,1.1"), "ligru_drop: 1.1 is no finite number from 0 to 1"),
        (("= 0.2,0.1", "= 0.2,0.1*5"), "0.1*5 is of 5 epochs"),
        (("= 6,4", "= 0,4"), "ligru_lay: 0 is below 1"),
        (("4*2 | 2*4", "4*2 | 0*4"), "batch_size_train: 0 is below 1"),
        (("length_train = 500", "length_train = 500*5"), "500*5 is of 5 epochs"),
        (("train = 2\n", "train = 0\n"), "multply_factor_seq_len_train: 0 is below 1"),
        (("arch_opt = sgd", "arch_opt = SGD"), "SGD is none of sgd, rmsprop, adam; did you mean"),
        (("arch_opt = sgd", "arch_opt = adam\nopt_betas = 0.9"), "1 numbers; Adam has 2"),
        (("arch_opt = sgd", "arch_opt = adam\nopt_betas = 0.9,2"), "2 is no finite number from"),
        (("cw_left=1", "cw_left=-1"), "-1 is below 0"),
        (("acwt = 0.2", "acwt = -0.2"), "acwt: -0.2 is no finite"),
        (("data_name = dev", "data_name = train"), "data_name: train is the name of two"),
        (("arch_name = head3", "arch_name = rnn"), "arch_name: rnn is the name of two"),
        (("fea_name=fbank", "fea_name=mfcc"), "fea: mfcc is the name of two"),
        (("lab_name=lab_mono", "lab_name=lab_cd"), "lab: lab_cd is the name of two"),
        (("fea_lst=data/train/feats.scp", "fea_lst="), "mfcc has no fea_lst"),
    ],
)
def test_values_that_theirs_refuses_are_refused(
    change: tuple[str, str], message: str, tmp_path: Path
) -> None:
    keys, (said, *_) = outcome(write(tmp_path, change))
    assert not keys
    assert message in said


def lengths_of_theirs(start: int, factor: int, longest: list[int], sets: int) -> list[int]:
    """The length of the first set of each epoch, as `create_configs` of utils.py has it."""
    current, found = start, []
    for epoch in range(len(longest)):
        found.append(current)
        for _ in range(sets):
            current = current * factor
            if current > longest[epoch]:
                current = longest[epoch]
    return found


@pytest.mark.parametrize("sets", [1, 2])
@pytest.mark.parametrize(
    ("start", "longest", "each"),
    [
        (100, "500", [500] * 6),
        (900, "500", [500] * 6),
        (100, "500*3|150*3", [500] * 3 + [150] * 3),
    ],
)
def test_sequences_grow_as_theirs(
    start: int, longest: str, each: list[int], sets: int, tmp_path: Path
) -> None:
    changes = [("len_train = 100", f"len_train = {start}"), ("train = 500", f"train = {longest}")]
    changes += [("train_with = train", "train_with = train,dev")] * (sets - 1)
    keys, said = outcome(write(tmp_path, *changes))
    expected = lengths_of_theirs(start, 2, each, sets)
    frames: dict[int, int] = keys["train"]["max_frames"]
    assert [frames[max(n for n in frames if n <= epoch)] for epoch in range(1, 7)] == expected
    assert (sets > 1) == any("after each of 2 training sets there" in line for line in said)


def test_a_value_without_its_number_is_of_one_epoch(tmp_path: Path) -> None:
    keys, _ = outcome(write(tmp_path, ("= 0.0004\n", "= 0.5|0.4*3|0.3|0.2\n")))
    assert keys["train"]["learning_rates"] == {1: 0.5, 2: 0.4, 5: 0.3, 6: 0.2}


def test_layer_norm_of_the_first_layer_is_off_where_a_network_reads_sequences(
    tmp_path: Path,
) -> None:
    """As in `check_cfg` of utils.py, where the first network alone is looked at."""

    def norms(seq: str) -> tuple[list[Any], bool]:
        sequential = {**SINC, "sinc_use_laynorm": "True", "arch_seq_model": seq}
        mlp = {**MLP, "dnn_use_laynorm": "True,False", "dnn_use_batchnorm": "False,False"}
        path = write_networks(tmp_path, ("SincNet", sequential), ("MLP", mlp))
        keys, said = outcome(path)
        layers = [layer["norm"] for layer in keys["model"]["stack"]]
        return layers, any("the first is off in theirs too" in line for line in said)

    assert norms("False") == (["layer-pytorch-kaldi"] * 2, False)
    assert norms("True") == (["none", "layer-pytorch-kaldi"], True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("mono=cost_nll(out3,", "mono=cost_nll(out2,"),
            "out2: is compared with lab_cd and lab_mo",
        ),
        (("ligru_lay = 6,4", "ligru_lay = N_out_lab_cd,4"), "is the width of a layer that is no h"),
    ],
)
def test_networks_that_ours_cannot_be_are_left_to_the_user(
    change: tuple[str, str], said: str, tmp_path: Path
) -> None:
    keys, lines = outcome(write(tmp_path, change))
    assert keys["model"]["unit"] not in UNITS, "nothing is trained before model is written"
    assert any(said in line for line in lines)


def test_a_set_that_is_validated_on_second_is_tested(tmp_path: Path) -> None:
    path = write(tmp_path, ("valid_with = dev", "valid_with = dev,test"))
    keys = yaml.safe_load(yaml.safe_dump(translate(read_experiment(path)).keys))
    assert keys["data"]["test"]["features"] == ["data/test"]


def test_a_set_that_is_forwarded_second_has_the_streams_of_the_first(tmp_path: Path) -> None:
    """Its only stream has another name than those which the network reads."""
    other = SET.format(number=4, name="other").replace("fea_name=", "fea_name=other_")
    path = write(
        tmp_path,
        ("forward_with = test", "forward_with = test,other"),
        ("[data_use]", f"{other}[data_use]"),
    )
    with pytest.raises(InputError, match="there is no stream mfcc, which"):
        translate(read_experiment(path))
