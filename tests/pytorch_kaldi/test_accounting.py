"""Every option of a configuration counts: it is carried over, refused, or named as left out."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.config.merge import load
from bayes_asr.nn.network import AcousticModel
from bayes_asr.pytorch_kaldi.experiment import read_experiment
from bayes_asr.pytorch_kaldi.translation import translate
from bayes_asr.train.components import architecture, check_parts
from tests.support.places import CONF, ROOT
from tests.support.their_cfg import CFG, HEAD, write, write_networks

ASSIGNMENT = re.compile(r"^(?P<lead>\s*(?:fea = |lab = )?)(?P<name>\w+)(?P<equals>\s*=\s*)(.*)$")
FLAGS = {"True": "False", "False": "True"}
MLP = {
    "dnn_lay": "5,N_out_lab_cd",
    "dnn_drop": "0.1,0.0",
    "dnn_act": "relu,softmax",
    "dnn_use_batchnorm": "True,False",
    "dnn_use_laynorm": "False,False",
    "dnn_use_batchnorm_inp": "False",
    "dnn_use_laynorm_inp": "False",
}
LSTM = {
    "hidden_size": "6",
    "num_layers": "2",
    "bias": "True",
    "batch_first": "True",
    "dropout": "0.1",
    "bidirectional": "True",
}
SINC = {
    "sinc_n_filt": "6",
    "sinc_len_filt": "5",
    "sinc_max_pool_len": "2",
    "sinc_use_laynorm_inp": "False",
    "sinc_use_batchnorm_inp": "False",
    "sinc_use_laynorm": "True",
    "sinc_use_batchnorm": "False",
    "sinc_act": "relu",
    "sinc_drop": "0.1",
    "sinc_sample_rate": "16000",
    "sinc_min_low_hz": "50",
    "sinc_min_band_hz": "50",
}


def outcome(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Our keys and what is said; of a refused file, no keys and the message."""
    try:
        translation = translate(read_experiment(path))
    except InputError as error:
        return {}, [str(error)]
    return translation.keys, translation.notes.lines()


def other_value(value: str) -> str:
    """Another value of the same kind."""
    first, *others = value.split(",")
    if first.strip() in FLAGS:
        return ",".join([FLAGS[first.strip()], *others])
    if re.fullmatch(r"\d+", first.strip()):
        return ",".join([str(int(first) + 1), *others])
    if re.fullmatch(r"[\d.]+(e-\d+)?", first.strip()):
        return ",".join([str(float(first) / 2 + 0.01), *others])
    return f"{value}x"


def edits(text: str) -> Iterator[tuple[str, str]]:
    """What names each option, and the text in which it has another value.

    Options of a block of fea or lab are named with the block too. Operations are no options.
    """
    lines, section, block = text.split("\n"), "", ""
    for number, line in enumerate(lines):
        section = line if line.startswith("[") else section
        option = ASSIGNMENT.match(line)
        if option and not (section == "[model]" and line.startswith("\t")):
            head = option["lead"] + option["name"] + option["equals"]
            if option["name"] in ("fea_name", "lab_name"):
                block = f"{option['name']} = {line[len(head) :]}:"
            elif not option["lead"]:
                block = ""
            name = rf"\b{option['name']}\b"
            named = f"{name}|{block}" if block else name
            edited = head + other_value(line[len(head) :])
            yield named, "\n".join((*lines[:number], edited, *lines[number + 1 :]))


def configurations(folder: Path) -> Iterator[str]:
    """Texts with all that is understood."""
    yield CFG
    for networks in ([("MLP", MLP)], [("LSTM_cudnn", LSTM), ("MLP", MLP)], [("SRU", LSTM)]):
        yield write_networks(folder, *networks).read_text()
    yield write_networks(folder, ("SincNet", SINC), ("MLP", MLP)).read_text()


@pytest.mark.parametrize("number", range(5))
def test_another_value_of_any_option_is_never_without_a_trace(number: int, tmp_path: Path) -> None:
    text = list(configurations(tmp_path))[number]
    path = tmp_path / "edited.cfg"
    path.write_text(text)
    keys, said = outcome(path)
    assert keys
    count = 0
    for name, edited in edits(text):
        path.write_text(edited)
        changed_keys, changed_said = outcome(path)
        named = any(re.search(name, line, re.IGNORECASE) for line in changed_said)
        assert changed_keys != keys or changed_said != said or named, name
        count += 1
    assert count > 100


def test_code_of_somebodys_own_is_no_option_that_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "own.cfg"
    text = CFG.replace("[exp]\n", "[exp]\nrun_nn_script = run_nn\n", 1).replace(
        "arch_class", "arch_library = neural_networks\narch_class"
    )
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    usual, said = outcome(path)
    assert sum("change no result" in line for line in said) == 1
    assert not any("run_nn =" in line or "arch_library =" in line for line in said)
    path.write_text(
        text.replace("= neural_networks", "= my_networks", 1).replace("= run_nn", "= mine")
    )
    keys, said = outcome(path)
    assert keys == usual
    assert any("arch_library = my_networks: its classes are taken for" in line for line in said)
    assert any("[exp] run_nn_script = mine: what run_nn does" in line for line in said)


@pytest.mark.slow
def test_an_option_that_nobody_knows_is_named_in_every_section(tmp_path: Path) -> None:
    for text in configurations(tmp_path):
        for header in re.findall(r"^\[\w+\]$", text, re.MULTILINE):
            path = tmp_path / "edited.cfg"
            # An empty value asks for nothing only of options that are known.
            for name, value in (("ligru_width", "3"), ("dnn_new", "False"), ("opt_new", "")):
                path.write_text(text.replace(header, f"{header}\n{name} = {value}", 1))
                _, said = outcome(path)
                assert any(f"{header} {name} = {value}: has no" in line for line in said)


@pytest.mark.parametrize(
    ("change", "keys", "said"),
    [
        ("--min_lmwt 4 --max_lmwt 6", {"lm_weights": [4, 5, 6]}, []),
        ("--min-lmwt  4   --max-lmwt=6", {"lm_weights": [4, 5, 6]}, []),
        ("--MIN-lmwt 4 --max-lmwt 6 --min-lmwt 5", {"lm_weights": [5, 6]}, ["--MIN-lmwt 4: is th"]),
        ("--cmd run.pl --min-lmwt 4", {}, ["--cmd run.pl: has no counterpart", "the other end is"]),
        (
            "--word-ins-penalty 0.0,0.5",
            {"insertion_penalties": [0.0, 0.5]},
            ["--word-ins-penalty: is decode.insertion_penalties"],
        ),
        ("--decode_mbr true", {"mbr": True}, []),
        ("--decode-mbr false", {}, []),
        ("--decode-mbr maybe", None, ["--decode-mbr=maybe is neither true nor false"]),
        ("--stage 2 data exp", {}, ["--stage 2: has no", "data exp: is no option"]),
        ("--min-lmwt 9 --max-lmwt 4", None, ["--min-lmwt 9 is above --max-lmwt 4"]),
        ("--min-lmwt four --max-lmwt 4", None, ["'four' is not a whole number"]),
        ("--min-lmwt --max-lmwt 4", None, ["'--max-lmwt' is not a whole number"]),
    ],
)
def test_options_of_scoring(
    change: str, keys: dict[str, Any] | None, said: list[str], tmp_path: Path
) -> None:
    found, lines = outcome(write(tmp_path, ("--min-lmwt 2 --max-lmwt 5", change)))
    for text in said:
        assert any("scoring_opts" in line and text in line for line in lines)
    if keys is None:
        assert not found
    else:
        names = ("lm_weights", "insertion_penalties", "mbr")
        assert {name: found["decode"][name] for name in names if name in found["decode"]} == keys


@pytest.mark.parametrize(
    ("options", "cmvn", "said"),
    [
        ("--norm-vars=true", "mean-variance", ""),
        ("--norm_vars", "mean-variance", ""),
        ("--Norm-Vars=T", "mean-variance", ""),
        ("--norm-vars=false", "mean", ""),
        ("--norm-vars=true --norm-vars=false", "mean", "--norm-vars=true: is there twice"),
        ("--norm-means=false", "none", "--norm-means=false: apply-cmvn does nothing then"),
        ("--reverse=true", "none", "--reverse: nothing here takes normalisation back"),
        ("--reverse=false", "mean", ""),
        ("--skip-dims=1:2", "mean", "--skip-dims=1:2: has no counterpart"),
        ("--norm-vars true", "mean-variance", "is read as if it ended in ark:- ark:-"),
        ("--norm-vars=maybe", None, "--norm-vars=maybe is neither true nor false"),
        ("--norm-means=0 --norm-vars", None, "--norm-vars=true wants --norm-means=true"),
    ],
)
def test_options_of_apply_cmvn(options: str, cmvn: str | None, said: str, tmp_path: Path) -> None:
    command = "fea_opts=apply-cmvn --utt2spk=ark:u"
    changed = (command, f"fea_opts=apply-cmvn {options} --utt2spk=ark:u")
    plain = outcome(write(tmp_path))[1]
    found, lines = outcome(write(tmp_path, changed))
    new = [line for line in lines if line not in plain]
    assert any(said in line for line in new) if said else not new
    assert not found if cmvn is None else found["features"]["cmvn"] == cmvn


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("--delta-order=2", "--delta-window=3"), "--delta-window=3: is 2 here"),
        (("--delta-order=2", "--truncate=1"), "--truncate=1: has no counterpart"),
        (("--utt2spk=ark:u", "--verbose=1"), "has no --utt2spk, so that it is of utterances"),
        (("| add-deltas", "| apply-cmvn ark:c ark:- ark:- | add-deltas"), "no command is run"),
        (("--per-frame=true", "--per-frame=false"), "phones of each frame are read"),
        (("--per-frame=true", "--write-lengths"), "--write-lengths: has no counterpart"),
        (("lab_opts=ali-to-pdf", "lab_opts=ali-to-post"), "ali-to-post: is taken for ali-to-pdf"),
        (("lab_count_file=none", "lab_count_file=c"), "lab_count_file = c: priors are of the tr"),
        (("forward_out = out2", "forward_out = out3"), "out3: is the head monophones; pdfs are"),
        (("forward_out = out2", "forward_out = out1"), "out1: is compared with no label; pdfs"),
        (("forward_out = out2", "forward_out = out2,out3"), "[forward] out3: one output is"),
        (("= lab_cd\n", "= a.counts\n"), "normalize_with_counts_from = a.counts: priors"),
        (("[decoding]", "normalize_posteriors=False\n[decoding]"), "normalize_posteriors = False"),
        (("[decoding]", "require_decoding=False\n[decoding]"), "require_decoding = False: decode"),
        (("cost_err(out2,lab_cd)", "cost_err(out3,lab_mono)"), "err_final = cost_err(out3,lab"),
        (("loss_final=sum(cd,mono_w)", "loss_final=sum_constant(cd,1)"), "[model] mono_w: loss_"),
        (
            ("valid_with = dev", "valid_with = train"),
            "[dataset2] dev: [data_use] does not name it: left out",
        ),
        (("fbank)", "mfcc)"), "fea_name = fbank: [model] does not read it"),
        (("[forward]", "[architecture9]\narch_name=a\n[forward]"), "[architecture9] has no arch"),
    ],
)
def test_what_was_lost_is_said(change: tuple[str, str], said: str, tmp_path: Path) -> None:
    assert not any(said in line for line in outcome(write(tmp_path))[1])
    assert any(said in line for line in outcome(write(tmp_path, change))[1])


def test_the_graph_of_a_set_without_labels_is_kept(tmp_path: Path) -> None:
    """As in the configuration of theirs that forwards a set in production."""
    head, _, tail = CFG.partition("[dataset3]")
    block, blank, rest = tail.partition("\nn_chunks")
    block = block[: block.index("lab = ")] + "lab = lab_name=none\n\tlab_graph=exp/other"
    path = tmp_path / "production.cfg"
    path.write_text(f"{head}[dataset3]{block}{blank}{rest}")
    keys, said = outcome(path)
    assert keys["data"]["graph"] == ["exp/other"]
    assert any("lab_graph = exp/graph: the graph is exp/other" in line for line in said)


def test_samples_are_made_by_features(tmp_path: Path) -> None:
    path = write_networks(tmp_path, ("SincNet", SINC), ("MLP", MLP))
    assert any("bayes-asr features --kind samples --window 200" in s for s in outcome(path)[1])


def test_cudnn_drops_each_number_between_layers_and_nowhere_else(tmp_path: Path) -> None:
    """As the Dropout of torch.nn.LSTM: on the outputs of each layer but the last."""
    cfg = write_networks(tmp_path, ("LSTM_cudnn", {**LSTM, "num_layers": "3"}), ("MLP", MLP))
    model = translate(read_experiment(cfg)).keys["model"]
    stack = model["stack"]
    between = [{k: layer[k] for k in layer if k not in ("name", "reads")} for layer in stack[1:4:2]]
    assert between == [{"kind": "dropout", "of": "units", "dropout": float(LSTM["dropout"])}] * 2
    assert [{**model, **layer}["input_dropout"] for layer in stack[:5:2]] == [0.0] * 3
    assert [{**model, **layer}["dropout"] for layer in stack[:5:2]] == [0.0] * 3


@pytest.mark.parametrize("hidden", [False, True])
def test_a_cost_without_weight_has_no_head_and_no_layers_below_it(
    hidden: bool, tmp_path: Path
) -> None:
    head = HEAD.format(number=3, units=48, rate=0.0004, optimizer="sgd")
    wide = head
    for old, new in (("lay = 48", "lay = 20,48"), ("drop = 0.0", "drop = 0.0,0.0")):
        wide = wide.replace(f"dnn_{old}", f"dnn_{new}")
    wide = wide.replace("norm = False", "norm = False,False").replace("= softmax", "= relu,softmax")
    changes = [("(mono,0.5)", "(mono,0.0)"), (head, wide if hidden else head)]
    keys, said = outcome(write(tmp_path, *changes))
    assert list(keys["model"]["heads"]) == ["pdfs"]
    assert any("the weight of its cost is 0" in line for line in said)
    (tmp_path / "ours.yaml").write_text(yaml.safe_dump(keys))
    config = load([tmp_path / "ours.yaml"])
    plan = architecture(config.model, {"features": 5, "fbank": 4}, {"pdfs": 3})
    check_parts("train.layers", config.train.layers, plan)
    assert AcousticModel(**plan).outputs == ("pdfs",)


def test_the_preset_has_first_weights_of_cudnn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = read_experiment(write_networks(tmp_path, ("LSTM_cudnn", LSTM), ("MLP", MLP)))
    drawn = [
        translate(experiment, like_theirs=like_theirs).keys["model"]["input_init"]
        for like_theirs in (False, True)
    ]
    assert drawn == ["uniform", "pytorch-kaldi"]
    cfg, out = str(write(tmp_path)), f"--out={tmp_path / 'ours.yaml'}"
    for arguments, is_said in (([], True), (["--like-theirs"], False)):
        assert main(["import-cfg", cfg, out, *arguments]) == 0
        said = capsys.readouterr().out
        assert ("first weights: theirs of MLPs" in said) == is_said
        assert ("gradients: theirs are not shortened" in said) == is_said


def test_another_unit_may_stand_on_top(tmp_path: Path) -> None:
    """As after a recipe: of all recurrent layers, with the rest of their options."""
    cfg, out = write(tmp_path, ("relu,tanh", "relu,relu")), tmp_path / "ours.yaml"
    assert main(["import-cfg", str(cfg), f"--out={out}"]) == 0
    recipe = ROOT / "recipes" / "timit" / "config.yaml"
    theirs = load([recipe, out]).model.read_stack()
    for unit in ("lstm", "li-bru", "gru", "bru"):
        layers = load([recipe, out, CONF / "units" / f"{unit}.yaml"]).model.read_stack()
        recurrent = [layer for layer in layers if layer.kind == "recurrent"]
        assert [layer.options["unit"] for layer in recurrent] == [unit] * 2
        for layer, before in zip(layers, theirs, strict=True):
            for key in ("units", "norm", "dropout", "bidirectional", "input_init"):
                assert layer.options.get(key) == before.options.get(key)


def test_data_are_left_to_a_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cfg, out = write_networks(tmp_path, ("LSTM_cudnn", LSTM), ("MLP", MLP)), tmp_path / "ours.yaml"
    cfg.write_text(cfg.read_text().replace("feats.scp", "feats_fmllr.scp"))
    assert main(["import-cfg", str(cfg), f"--out={out}", "--without-data"]) == 0
    assert "\ndata:" not in out.read_text()
    recipe = ROOT / "recipes" / "timit" / "config.yaml"
    alone, together = load([recipe]), load([recipe, out])
    assert together.data == alone.data
    assert [layer.name for layer in together.model.read_stack()] == [
        *("net1_1", "net1_drop1", "net1_2", "net2")
    ]
    sample = ROOT / "recipes" / "timit_sample" / "config.yaml"
    noisy, imported = (load(files).train for files in ([sample], [sample, out]))
    assert min(noisy.noise, noisy.tempo) > 0
    assert imported.noise == imported.tempo == 0
    assert "make a data directory" not in capsys.readouterr().out
    assert main(["import-cfg", str(cfg), f"--out={out}"]) == 0
    assert "make a data directory" in capsys.readouterr().out
    assert main(["import-cfg", str(write(tmp_path)), f"--out={out}", "--without-data"]) == 1
    assert "theirs.cfg: reads fbank beside the features" in capsys.readouterr().err
