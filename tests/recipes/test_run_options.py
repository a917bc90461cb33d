"""run.sh: its options, what it refuses, and how they reach the commands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.places import ROOT
from tests.support.recipe_options import DEFAULTS
from tests.support.script_stubs import Checkout, executable

NEEDS_RECIPE = re.compile("preparing a corpus|--dim 50|needs its corpus|recipe|name it by")
OPTIONS = [  # a promise to the users' scripts
    *("recipe", "kaldi-dir", "corpus", "config", "set", "out", "stage", "stop-stage"),
    *("nj", "nproc", "seeds", "experiment", "dim", "features", "force"),
]


def test_help_is_the_header_and_names_every_option(checkout: Checkout) -> None:
    done = checkout.run("./run.sh", "--help")
    assert done.returncode == 0
    assert re.findall(r"^  --([a-z-]+)", done.stdout, re.MULTILINE) == OPTIONS
    assert not checkout.calls("python"), "help needs no environment"


@pytest.mark.parametrize("script", ["run.sh", "local/gmm.sh", "local/kaldi_gmm.sh"])
def test_help_is_for_users_alone(script: str) -> None:
    done = subprocess.run([ROOT / script, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout
    assert "shellcheck" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--recipy", "x"], "unknown option --recipy, did you mean --recipe?"),
        (["--stop-stag=3"], "unknown option --stop-stag, did you mean --stop-stage?"),
        (["mini"], "'mini' is not an option"),
        (["--"], "'--' is not an option"),
        (["--seeds"], "--seeds needs a value: --seeds N"),
        (["--out", "--force"], "--out needs a value: --out DIR"),
        (["--stage", "three"], "--stage needs a number, not 'three'"),
        (["--stage", "08"], "--stage needs a number, not '08'"),
        (["--force=no"], "--force takes no value"),
    ],
)
def test_what_is_no_option_is_refused_before_there_is_an_environment(
    checkout: Checkout, arguments: list[str], message: str
) -> None:
    done = checkout.run("./run.sh", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not checkout.calls("python")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--recipe", "absent"], "known recipes: given gmm made"),
        (["--recipe", "given"], "name it by --kaldi-dir"),
        (["--recipe", "given", "--kaldi-dir", "absent"], "absent: there is no such folder"),
        (["--recipe", "given", "--corpus", "."], "preparing a corpus for the recipe given"),
        (["--recipe", "given", "--dim", "50"], "--dim 50"),
        (["--recipe", "made", "--corpus", "."], "preparing a corpus for the recipe made"),
        (["--recipe", "gmm"], "the recipe gmm needs its corpus, or a Kaldi experiment"),
        (
            ["--recipe", "gmm", "--corpus", ".", "--features", "mfcc", "--dim", "50"],
            "for the recipe gmm without GMMs",
        ),
        (
            ["--recipe", "gmm", "--corpus", ".", "--features", "mfcc"],
            "--features mfcc: is not available for the recipe gmm, which has no without_kaldi.sh",
        ),
        (["--recipe", "made", "--features", "fmllr"], "the recipe made, which has no kaldi.sh"),
        (["--recipe", "gmm", "--features", "plp"], "plp: must be one of fmllr, mfcc, fbank"),
        (["--recipe", "made", "--features", "fbank"], "the recipe made, which has no kaldi.sh"),
        (["--recipe", "made", "--kaldi-dir", ".", "--features", "mfcc"], "exclude each other"),
        (["--recipe", "made", "--kaldi-dir", ".", "--dim", "50"], "exclude each other"),
        (["--recipe", "made", "--config", "absent.yaml"], "absent.yaml: there is no such file"),
        (["--recipe", "made", "--seeds", "0"], "--seeds 0: at least one"),
        (["--recipe", "made", "--stage", "5", "--stop-stage", "3"], "no stage of 0 to 7"),
        (["--recipe", "made", "--corpus", "a\nb"], "--corpus: a path with the end of a line"),
        (["--recipe", "made", "--corpus", "absent"], "absent: there is no such folder"),
        (["--recipe", "made", "--nj", "0"], "--nj 0: at least one"),
        (["--recipe", "made", "--set", "seed=3"], "the seeds are chosen by --seeds"),
        (["--recipe", "made", "--stage", "4", "--set", "a.b=1"], "takes its configuration from"),
        (["--recipe", "made", "--nproc", "0"], "--nproc 0: at least one"),
        (["--recipe", "made", "--experiment", "figure9"], "known experiments: pair"),
    ],
)
def test_mistakes_are_refused_in_one_line(
    checkout: Checkout, arguments: list[str], message: str
) -> None:
    before_an_environment = not NEEDS_RECIPE.search(message)
    if not before_an_environment:
        checkout.set_up()
    done = checkout.run("./run.sh", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    if before_an_environment:
        assert not [call for call in checkout.calls("python") if "pip" in call]
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not checkout.calls("bayes-asr")
    assert not (checkout.folder / "exp").exists()


@pytest.mark.slow
def test_an_option_that_may_be_repeated_takes_several_values(checkout: Checkout) -> None:
    """As those of the verbs; `--NAME=VALUE` has one value."""
    words = ("--set", "train.epochs=1", "model.units=2", "--nj", "3", "--set=model.layers=4")
    words += ("--config", "x.yaml", "y.yaml")
    for name in ("x.yaml", "y.yaml"):
        (checkout.folder / name).touch()
    made = ("--recipe", "given", "--kaldi-dir", ".", "--stop-stage", "3")
    done = checkout.run("./run.sh", *made, *words)
    assert done.returncode == 0, done.stderr
    (train,) = (call for call in checkout.calls("bayes-asr") if call[0] == "train")
    assert train[2:4] == ["x.yaml", "y.yaml"]
    assert [word.removeprefix("--set=") for word in train if re.match("--set=[mt]", word)] == [
        *("train.epochs=1", "model.units=2", "model.layers=4"),
    ]
    refused = checkout.run("./run.sh", *made, "--set=train.epochs=1", "model.units=2")
    assert "'model.units=2' is not an option" in refused.stderr


@pytest.mark.slow
def test_a_network_of_numbers_ends_behind_forward(checkout: Checkout) -> None:
    """Neither words, error rates nor their table are asked for."""
    script = checkout.folder / "run.sh"
    (asked,) = re.findall("^learn .*$", script.read_text(), re.MULTILINE)
    numbers = f"{asked}\nsystems=($'forward\\tnumbers\\t')"
    script.write_text(script.read_text().replace(asked, numbers))
    done = checkout.run("./run.sh", "--recipe", "made")
    assert done.returncode == 0, done.stderr
    verbs = [call[0] for call in checkout.calls("bayes-asr")]
    assert verbs == ["train", "forward", "forward"]
    assert "transcribe" not in done.stderr


@pytest.mark.slow
def test_an_experiment_trains_each_of_its_systems_and_compares_them(checkout: Checkout) -> None:
    small = checkout.folder / "small.yaml"
    small.touch()
    done = checkout.run(
        "./run.sh", *("--recipe", "made", "--experiment", "pair", "--seeds", "2"),
        *("--config", str(small)),
    )  # fmt: skip
    assert done.returncode == 0
    out = checkout.folder / "exp/made"
    trained = [call for call in checkout.calls("bayes-asr") if call[0] == "train"]
    systems = [(system, seed) for system in ("gru", "lstm") for seed in (1, 2)]
    for call, (system, seed) in zip(trained, systems, strict=True):
        assert call[2:4] == [
            str(checkout.folder / f"conf/experiments/pair/{system}.yaml"),
            str(small),
        ]
        assert call[-1] == str(out / f"{system}-small" / f"seed{seed}")
    runs = [str(out / f"{system}-small") for system in ("gru", "lstm")]
    reported = ["report", *runs, "--out", str(out / "report_pair-small")]
    assert checkout.calls("bayes-asr")[-1] == reported


@pytest.mark.slow
def test_hypotheses_of_an_experiment_reach_its_report(checkout: Checkout) -> None:
    file = checkout.folder / "conf/experiments/pair/hypotheses.txt"
    file.write_text("gated $(touch pwned) = gru < old = lstm\n")
    done = checkout.run("./run.sh", *("--recipe", "made", "--experiment", "pair"))
    assert done.returncode == 0
    out = checkout.folder / "exp/made"
    stated = ["--group", f"gated $(touch pwned)={out}/gru", "--against", f"old={out}/lstm"]
    assert checkout.calls("bayes-asr")[-1][-4:] == stated
    file.write_text("gated = gruu < old = lstm\n")
    done = checkout.run("./run.sh", *("--recipe", "made", "--experiment", "pair"))
    assert done.returncode == 1
    assert "line 1: the experiment has no system gruu; did you mean gru?" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--out", "--stage", "--recipe", "--config", "--$(touch x)"])
def test_nothing_on_the_command_line_is_executed(checkout: Checkout, option: str) -> None:
    for value in ("$(touch pwned)", "`touch pwned`", "a[$(touch pwned)]", "x;touch pwned"):
        checkout.run("./run.sh", "--recipe", "made", option, value)
    assert not list(checkout.folder.rglob("pwned"))
    assert not list(checkout.folder.rglob("x"))


@pytest.mark.slow
def test_configurations_settings_and_seeds(checkout: Checkout) -> None:
    (checkout.folder / "small size.yaml").touch()
    (checkout.folder / "li-gru.yaml").touch()
    (checkout.folder / "my kaldi").mkdir()
    done = checkout.run(
        *("./run.sh", "--recipe", "recipes/given", "--kaldi-dir", "my kaldi", "--seeds=2"),
        *("--config", "small size.yaml", "--config", "li-gru.yaml", "--out", "my runs #2"),
        *("--set", "model.layers=2", "--set", "data.index=two words", "--stage", "3"),
        *("--stop-stage", "3"),
    )
    assert done.returncode == 0, done.stderr
    assert not [call for call in checkout.calls("python") if "prepare.py" in call[0]]
    files = ("recipes/given/config.yaml", "small size.yaml", "li-gru.yaml")
    assert checkout.calls("bayes-asr") == [
        [
            *("train", *files),
            f"--set=data.dir='{checkout.folder}/my kaldi'",
            *(f"--set=data.index='{checkout.folder}/my runs #2/index'", f"--set=seed={seed}"),
            *("--set=model.layers=2", "--set=data.index=two words"),
            *("--out", f"{checkout.folder}/my runs #2/li-gru/seed{seed}"),
        ]
        for seed in (1, 2)
    ]


@pytest.mark.parametrize(
    "path", ["/plain", "/a #2", "/a: b", "/it's", "/'", "/a\tb", '/"a" & \\1', "/größe/😀", "/a "]
)
def test_scripts_quote_paths_as_yaml_reads_them(path: str) -> None:
    command = ["bash", "-euc", '. local/stages.sh; quoted "$1"', "bash", path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert yaml.safe_load(done.stdout) == path


def test_every_script_quotes_the_folders_that_it_sets() -> None:
    scripts = [ROOT / "run.sh", *ROOT.glob("local/*.sh"), *ROOT.glob("recipes/*/*.sh")]
    text = "".join(script.read_text() for script in scripts)
    given = re.findall(r"--set=data\.(?:dir|index)=(\S+)", text)
    assert len(given) > 4
    assert {*given} == {'"$(quoted'}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "foo=1"], "run.sh: --set foo=1: there is no key foo"),
        (["--set", "model.unit=liGRU"], "did you mean li-gru?"),
        (["--config", "leaky.yaml"], "did you mean leaky-relu?"),
        (["--set", "train.epochs=0"], "train.epochs is 0; it must be a whole number between 1"),
        (["--config", "wrong.yaml"], "wrong.yaml, line 1: there is no key trains"),
        (["--recipe", "broken"], "config.yaml, line 1: recipe.offers is 'speed'; it must be"),
    ],
)
def test_settings_are_checked_before_any_stage(
    checkout: Checkout, arguments: list[str], message: str
) -> None:
    checkout.set_up()
    (checkout.folder / "wrong.yaml").write_text("trains: {epochs: 2}\n")
    leaky = "model: {unit: rnn, activation: leaky_relu}\n"
    (checkout.folder / "leaky.yaml").write_text(leaky)
    broken = checkout.folder / "recipes" / "broken"
    broken.mkdir()
    (broken / "config.yaml").write_text("recipe: {offers: speed}\n")
    done = checkout.run("./run.sh", "--recipe", "made", *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not checkout.calls("bayes-asr")
    assert not (checkout.folder / "exp").exists()


def test_refusing_early_needs_the_standard_library_alone(checkout: Checkout) -> None:
    """As on a machine where nothing is installed yet: -S leaves all packages out."""
    words = ("-P", "-S", "-m", "bayes_asr.recipe.stages", "run.sh", "refuse", str(checkout.folder))
    for option, status in (("--recipe=nosuch", 2), ("--experiment=pair", 0)):
        done = checkout.run(sys.executable, *words, *DEFAULTS, "--recipe=made", option)
        assert done.returncode == status, done.stderr
        assert done.stderr.count("\n") == (status > 0)


@pytest.mark.slow
def test_what_stages_will_lack_is_asked_before_any_training(checkout: Checkout) -> None:
    """Of every system of an experiment; a lack ends it before hours are spent."""
    options = ("./run.sh", "--recipe", "made", "--experiment", "pair", "--set=train.epochs=3")
    done = checkout.run(*options, "--stop-stage", "6", FAILING="doctor")
    assert done.returncode == 3
    assert "Stage 3 (doctor) failed with status 3" in done.stderr
    assert not checkout.calls("bayes-asr")
    assert checkout.run(*options, "--stop-stage", "6").returncode == 0
    out, root = checkout.folder / "exp/made", checkout.folder
    asked = checkout.calls("doctor")[1:]
    for call, system in zip(asked, ("gru", "lstm"), strict=True):
        assert call == [
            *(str(root / "recipes/made/config.yaml"),),
            *(str(root / f"conf/experiments/pair/{system}.yaml"), f"--set=data.dir='{out}'"),
            *("--set=train.epochs=3", "--until", "6", "--out", str(out)),
        ]
    lines = checkout.calls_file.read_text().splitlines()
    verbs = [line.split("\t")[1] for line in lines if line.startswith("bayes-asr")]
    assert verbs[1:5] == ["doctor", "doctor", "train", "forward"]
    checkout.run("./run.sh", "--recipe", "made", "--stage", "4")
    assert len(checkout.calls("doctor")) == 3


def test_stages_are_told_which_command_runs_them(checkout: Checkout, tmp_path: Path) -> None:
    """Since they advise its options; in an installed package there is no run.sh."""
    python, noted = tmp_path / "python", tmp_path / "noted"
    executable(
        python, f'#!/bin/bash\necho "$BAYES_ASR_STAGE_OF" >>"$NOTED"\nexec {sys.executable} "$@"\n'
    )
    words = ["./run.sh", "--recipe", "made", "--out", str(tmp_path / "out")]
    checkout.run(*words, BAYES_ASR_PYTHON=str(python), NOTED=str(noted))
    assert {*noted.read_text().splitlines()} == {"bayes-asr run"}
