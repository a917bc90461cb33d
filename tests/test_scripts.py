"""run.sh and test.sh: their options, the commands they give, and how they set themselves up.

The programs that they call are replaced by stubs that note down their arguments.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = [  # a promise to the users' scripts
    *("recipe", "kaldi-dir", "corpus", "config", "set", "out", "stage", "stop-stage"),
    *("nj", "nproc", "seeds", "experiment", "dim", "force"),
]
STUB = """#!/usr/bin/env bash
printf '%s' "${0##*/}" >>"$CALLS"; printf '\\t%s' "$@" >>"$CALLS"; echo >>"$CALLS"
case "$*" in
    *"import torch"*) [[ -n $TORCH ]] && echo "$TORCH" ;;
    -c* | --version) exec "$REAL_PYTHON" "$@" ;;
    "$FAILING"*) echo "it went wrong"; exit 3 ;;
    forward*) mkdir -p "$2/forward_$4" && echo new >"$2/forward_$4/loglikes.ark" ;;
    decode*) mkdir -p "$2/decode_$4" && echo new >"$2/decode_$4/words.txt" ;;
    report*) echo "| system | dev | test |" ;;
esac
"""


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class Checkout:
    """A copy of the scripts with two empty recipes, and an active environment made of stubs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "a checkout"
        self.calls_file = folder / "calls"
        shutil.copytree(ROOT / "local", self.folder / "local")
        for name in ("run.sh", "test.sh", "setup.py", "constraints.txt", "pyproject.toml"):
            shutil.copy(ROOT / name, self.folder)
        (self.folder / "bayes_asr").mkdir()
        for recipe in ("given", "made"):
            (self.folder / "recipes" / recipe).mkdir(parents=True)
            (self.folder / "recipes" / recipe / "config.yaml").touch()
        (self.folder / "conf/experiments/pair").mkdir(parents=True)
        for system in ("gru", "lstm"):
            (self.folder / f"conf/experiments/pair/{system}.yaml").touch()
        (self.folder / "recipes/made/prepare.py").write_text('add_argument("--dim")\n')
        gmm = self.folder / "recipes/gmm"
        gmm.mkdir()
        for name in ("config.yaml", "kaldi.sh"):
            (gmm / name).touch()
        (gmm / "prepare.py").write_text('add_argument("--corpus")\n')
        executable(self.folder / "local/kaldi_gmm.sh", STUB)
        self.environment = folder / "environment"
        for name in ("python", "bayes-asr"):
            executable(self.environment / "bin" / name, STUB)

    def run(self, *command: str, **changes: str) -> subprocess.CompletedProcess[str]:
        """Run a script of the checkout with the stubs as its active environment."""
        variables = {
            "CALLS": str(self.calls_file),
            "REAL_PYTHON": sys.executable,
            "VIRTUAL_ENV": str(self.environment),
            "TORCH": "2.13.0+cpu",
            "FAILING": "nothing fails",
        }
        return run_with(variables | changes, self.folder, *command)

    def calls(self, program: str) -> list[list[str]]:
        """The arguments of each call of a program so far."""
        lines = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        called = [line.split("\t") for line in lines]
        return [arguments for name, *arguments in called if name == program]


def run_with(
    variables: Mapping[str, str], folder: Path, *command: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_help_is_the_header_and_names_every_option(checkout: Checkout) -> None:
    done = checkout.run("./run.sh", "--help")
    assert done.returncode == 0
    assert re.findall(r"^  --([a-z-]+)", done.stdout, re.MULTILINE) == OPTIONS
    assert not checkout.calls("python"), "help needs no environment"


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
        (["--recipe", "absent"], "known recipes: given gmm made"),
        (["--recipe", "given"], "name it by --kaldi-dir"),
        (["--recipe", "given", "--kaldi-dir", "absent"], "absent: there is no such folder"),
        (["--recipe", "given", "--corpus", "."], "preparing a corpus for the recipe given"),
        (["--recipe", "given", "--dim", "50"], "--dim 50"),
        (["--recipe", "made", "--corpus", "."], "preparing a corpus for the recipe made"),
        (["--recipe", "gmm"], "the recipe gmm needs its corpus, or a Kaldi experiment"),
        (["--recipe", "gmm", "--corpus", ".", "--dim", "50"], "for the recipe gmm without Kaldi"),
        (["--recipe", "made", "--kaldi-dir", ".", "--dim", "50"], "exclude each other"),
        (["--recipe", "made", "--config", "absent.yaml"], "absent.yaml: there is no such file"),
        (["--recipe", "made", "--seeds", "0"], "--seeds 0: at least one"),
        (["--recipe", "made", "--stage", "5", "--stop-stage", "3"], "no stage of 0 to 7"),
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
    done = checkout.run("./run.sh", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not checkout.calls("bayes-asr")


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


@pytest.mark.parametrize("option", ["--out", "--stage", "--recipe", "--config", "--$(touch x)"])
def test_nothing_on_the_command_line_is_executed(checkout: Checkout, option: str) -> None:
    for value in ("$(touch pwned)", "`touch pwned`", "a[$(touch pwned)]", "x;touch pwned"):
        checkout.run("./run.sh", "--recipe", "made", option, value)
    assert not list(checkout.folder.rglob("pwned"))
    assert not list(checkout.folder.rglob("x"))


def test_stages_of_a_recipe_that_makes_its_data(checkout: Checkout) -> None:
    numbers = ("--nj", "3", "--nproc", "2", "--dim", "50")
    done = checkout.run("./run.sh", "--recipe", "made", *numbers)
    out = str(checkout.folder / "exp/made")
    run = f"{out}/made/seed1"
    assert done.returncode == 0, done.stderr
    prepare = [str(checkout.folder / "recipes/made/prepare.py"), "--out", out, "--dim", "50"]
    assert [call for call in checkout.calls("python") if call[0] == prepare[0]] == [prepare]
    config = str(checkout.folder / "recipes/made/config.yaml")
    assert checkout.calls("bayes-asr") == [
        ["train", config, f"--set=data.dir={out}", "--set=seed=1", "--nproc", "2", "--out", run],
        ["forward", run, "--on", "dev"],
        ["decode", run, "--on", "dev", "--nj", "3"],
        ["forward", run, "--on", "test"],
        ["decode", run, "--on", "test", "--nj", "3"],
        ["score", run, "--nj", "3"],
        ["report", out],
    ]
    assert done.stdout.endswith("| system | dev | test |\n")
    assert {log.name for log in Path(run, "log").glob("*.log")} == {
        *("train.log", "score.log"),
        *(f"{verb}_{part}.log" for verb in ("forward", "decode") for part in ("dev", "test")),
    }


GMM = ("./run.sh", "--recipe", "gmm", "--corpus", ".", "--nj", "2", "--stop-stage", "3")


@pytest.mark.parametrize("how", ["KALDI_ROOT", "path.sh", "made before"])
def test_stages_1_and_2_are_kaldis_where_there_is_kaldi(checkout: Checkout, how: str) -> None:
    out = checkout.folder / "exp/gmm"
    if how == "path.sh":
        (checkout.folder / "path.sh").touch()
    if how == "made before":
        (out / "data-fmllr-tri3").mkdir(parents=True)
    variables = {"KALDI_ROOT": "/kaldi" if how == "KALDI_ROOT" else ""}
    done = checkout.run(*GMM, "--dim", "50", "--force", **variables)
    assert done.returncode == 0, done.stderr
    recipe = checkout.folder / "recipes/gmm"
    prepare = [str(recipe / "prepare.py"), "--out", str(out), "--corpus", "."]
    assert [call for call in checkout.calls("python") if call[0] == prepare[0]] == [prepare]
    assert checkout.calls("kaldi_gmm.sh") == [
        ["--recipe", str(recipe), "--out", str(out), "--nj", "2", "--dim", "50", "--force"]
    ]
    assert checkout.calls("bayes-asr")[0][:2] == ["train", str(recipe / "config.yaml")]


def test_stages_1_and_2_without_kaldi_are_the_recipes_own(checkout: Checkout) -> None:
    recipe, out = checkout.folder / "recipes/gmm", checkout.folder / "exp/gmm"
    (recipe / "without_kaldi.sh").write_text(
        'configuration+=("$recipe_dir/less.yaml")\n'
        'run_stage 2 alignments "$out" -- bayes-asr align --on train\n'
    )
    for stage, verbs in (("0", ["align", "train"]), ("3", ["train"])):
        before = len(checkout.calls("bayes-asr"))
        done = checkout.run(*GMM, "--stage", stage, KALDI_ROOT="")
        assert done.returncode == 0, done.stderr
        called = checkout.calls("bayes-asr")[before:]
        assert [call[0] for call in called] == verbs
        configurations = [str(recipe / name) for name in ("config.yaml", "less.yaml")]
        assert called[-1][1:4] == [*configurations, f"--set=data.dir={out}"]
    assert not checkout.calls("kaldi_gmm.sh")


@pytest.mark.parametrize(
    ("name", "sets", "oov", "sound"),
    [
        ("ami", ["train", "dev", "eval"], "<unk>", True),
        ("an4", ["train", "dev", "test"], "<UNK>", True),
        ("an4", ["train", "dev", "test"], "<UNK>", False),
    ],
)
def test_alignments_without_kaldi_or_marks_begin_with_equal_lengths(
    checkout: Checkout, name: str, sets: list[str], oov: str, sound: bool
) -> None:
    """Two networks learn and align in turn; prepared features are taken as they are."""
    recipe, out = checkout.folder / "recipes/gmm", checkout.folder / "exp/gmm"
    shutil.copy(ROOT / "recipes" / name / "without_kaldi.sh", recipe)
    train, dev, test = (f"{out}/data/{part}" for part in sets)
    Path(train).mkdir(parents=True)
    Path(train, "wav.scp" if sound else "feats.scp").touch()
    done = checkout.run(*GMM, "--stage", "1", KALDI_ROOT="")
    assert done.returncode == 0, done.stderr
    dictionary, lm = f"{out}/data/local/dict", f"{out}/data/local/lm.arpa"
    exp, model = f"{out}/exp", f"{out}/exp/flat_ali/final.mdl"
    align = ["align", "--oov", oov, "--lang", dictionary]
    configurations = [str(recipe / file) for file in ("config.yaml", "without_kaldi.yaml")]
    expected = [
        *([["features", train, dev, test]] if sound else []),
        [*align, "--flat", "--data", train, "--out", f"{exp}/flat_ali"],
        [*align, "--flat", "--data", dev, "--model", model, "--out", f"{exp}/flat_ali_dev"],
        [
            *("graph", "--lexicon", f"{dictionary}/lexicon.txt", "--lm", lm, "--model", model),
            *("--out", f"{exp}/mono/graph"),
        ],
    ]
    for learnt, made in (("flat", "first"), ("first", "realigned")):
        aligner = f"{exp}/aligner_{made}"
        labels = [
            f"--set=data.{part}.alignments=[exp/{learnt}_ali{end}]"
            for part, end in (("train", ""), ("dev", "_dev"))
        ]
        described = [*configurations, str(recipe / "aligner.yaml")]
        expected += [
            ["train", *described, f"--set=data.dir={out}", *labels, "--out", aligner],
            [*align, aligner, "--on", "train", "--nj", "2", "--out", f"{exp}/{made}_ali"],
            [*align, aligner, "--on", "dev", "--nj", "2", "--out", f"{exp}/{made}_ali_dev"],
        ]
    *before, last = checkout.calls("bayes-asr")
    assert before == expected
    assert last[:4] == ["train", *configurations, f"--set=data.dir={out}"]


def test_corpus_that_has_changed_is_prepared_again(checkout: Checkout) -> None:
    """Files that came, also by a link to old ones; the results may lie inside the corpus."""
    corpus, old = checkout.folder / "corpus", checkout.folder / "old.wav"
    corpus.mkdir()
    old.touch()

    def prepared() -> bool:
        before = len(checkout.calls("python"))
        done = checkout.run(*GMM[:3], "--corpus", "corpus", "--out", "corpus/out",
                            "--stop-stage", "0", KALDI_ROOT="")  # fmt: skip
        assert done.returncode == 0, done.stderr
        calls = [call for call in checkout.calls("python")[before:] if call[0].endswith(".py")]
        assert ("corpus has changed" in done.stdout) == (bool(calls) and before > 0)
        return bool(calls)

    assert prepared()
    assert not prepared()
    (corpus / "new.wav").touch()
    assert prepared()
    assert not prepared()
    (corpus / "linked.wav").symlink_to(old)
    assert prepared()
    assert not prepared()


def test_recipe_that_needs_kaldi_says_so_after_its_preparation(checkout: Checkout) -> None:
    done = checkout.run(*GMM, KALDI_ROOT="")
    assert done.returncode == 1
    assert "Stages 1 and 2 of the recipe gmm need Kaldi: set KALDI_ROOT" in done.stderr
    assert [call for call in checkout.calls("python") if call[0].endswith("prepare.py")]
    assert not checkout.calls("bayes-asr")
    assert checkout.run(*GMM, "--stop-stage", "0", KALDI_ROOT="").returncode == 0


def test_configurations_settings_and_seeds(checkout: Checkout) -> None:
    (checkout.folder / "small size.yaml").touch()
    (checkout.folder / "li-gru.yaml").touch()
    (checkout.folder / "my kaldi").mkdir()
    done = checkout.run(
        *("./run.sh", "--recipe", "recipes/given", "--kaldi-dir", "my kaldi", "--seeds=2"),
        *("--config", "small size.yaml", "--config", "li-gru.yaml", "--out", "my runs"),
        *("--set", "model.layers=2", "--set", "note=two words", "--stage", "3"),
        *("--stop-stage", "3"),
    )
    assert done.returncode == 0, done.stderr
    assert not [call for call in checkout.calls("python") if "prepare.py" in call[0]]
    files = ("recipes/given/config.yaml", "small size.yaml", "li-gru.yaml")
    checked, *trained = checkout.calls("bayes-asr")
    assert checked == ["config", *files, "--set=model.layers=2", "--set=note=two words"]
    assert trained == [
        [
            *("train", *files),
            *(f"--set=data.dir={checkout.folder}/my kaldi", f"--set=seed={seed}"),
            *("--set=model.layers=2", "--set=note=two words"),
            *("--out", f"{checkout.folder}/my runs/li-gru/seed{seed}"),
        ]
        for seed in (1, 2)
    ]


def test_settings_are_checked_before_any_stage(checkout: Checkout) -> None:
    done = checkout.run("./run.sh", "--recipe", "made", "--set", "foo=1", FAILING="config")
    assert done.returncode == 3
    assert [call[0] for call in checkout.calls("bayes-asr")] == ["config"]
    assert not (checkout.folder / "exp").exists()


def test_failing_stage_stops_with_its_status_and_names_its_log(checkout: Checkout) -> None:
    done = checkout.run("./run.sh", "--recipe", "made", FAILING="decode")
    log = checkout.folder / "exp/made/made/seed1/log/decode_dev.log"
    assert done.returncode == 3
    assert f"Stage 5 (decode_dev) failed with status 3; its log is {log}" in done.stderr
    assert "it went wrong" in log.read_text()
    assert [call[0] for call in checkout.calls("bayes-asr")] == ["train", "forward", "decode"]


def test_signal_to_end_reaches_the_stage_and_is_waited_for(checkout: Checkout) -> None:
    """The stub asks run.sh to end, as a queue does, and saves before it ends itself."""
    executable(
        checkout.environment / "bin" / "bayes-asr",
        "#!/usr/bin/env bash\ntrap 'sleep 0.3; echo saved; exit 143' TERM\n"
        'kill "$PPID"\nfor i in {1..100}; do sleep 0.1; done\n',
    )
    done = checkout.run("./run.sh", "--recipe", "given", "--kaldi-dir", ".")
    assert done.returncode == 143
    assert done.stdout.endswith("saved\n")
    assert "Stage 3 (train) failed with status 143" in done.stderr


def test_complete_stages_are_repeated_only_if_their_files_or_command_changed(
    checkout: Checkout,
) -> None:
    def verbs(*more: str, **changes: str) -> str:
        before = len(checkout.calls("bayes-asr"))
        checkout.run("./run.sh", "--recipe", "made", "--nj", "1", *more, **changes)
        return " ".join(call[0] for call in checkout.calls("bayes-asr")[before:])

    run = checkout.folder / "exp/made/made/seed1"
    everything = "train forward decode forward decode score report"
    assert verbs(FAILING="score") == everything.removesuffix(" report")
    assert verbs() == "train score report"
    assert verbs() == "train report"
    assert verbs("--force") == everything
    assert verbs("--nj", "2") == "train decode decode score report"
    (run / "decode_dev/words.txt").unlink()
    assert verbs("--nj", "2") == "train decode score report"
    (run / "best.pt").write_text("another network")
    assert verbs("--nj", "2") == everything
    assert verbs("--nj", "2") == "train report"
    (run / "config.yaml").write_text("another beam, which train has recorded")
    assert verbs("--nj", "2") == everything


def pip_calls(checkout: Checkout) -> list[list[str]]:
    return [call for call in checkout.calls("python") if call[:2] == ["-m", "pip"]]


def test_installing_happens_once_and_again_when_it_would_differ(checkout: Checkout) -> None:
    def prepared_only() -> None:
        assert checkout.run("./run.sh", "--recipe", "made", "--stop-stage", "0").returncode == 0

    prepared_only()
    prepared_only()
    assert len(pip_calls(checkout)) == 1
    assert pip_calls(checkout)[0][2:5] == ["install", "--editable", ".[mini,report]"]
    with (checkout.folder / "constraints.txt").open("a") as constraints:
        constraints.write("# another pin\n")
    prepared_only()
    assert len(pip_calls(checkout)) == 2
    (checkout.environment / ".bayes_asr-mini,report").rename(
        checkout.environment / ".bayes_asr-mini,report,test"
    )
    prepared_only()
    assert len(pip_calls(checkout)) == 2, "more than is needed is there"


def test_failed_installation_is_not_taken_for_done(checkout: Checkout) -> None:
    for _ in range(2):
        done = checkout.run("./run.sh", "--recipe", "made", FAILING="-m pip")
        assert done.returncode == 1
        assert "The installation failed" in done.stderr
    assert len(pip_calls(checkout)) == 2
    assert not checkout.calls("bayes-asr")


@pytest.mark.parametrize(
    ("torch", "expected", "announced"),
    [
        ("2.13.0+cpu", "torch==2.13.0", False),
        ("", "torch==2.13.0", True),
        ("2.6.0+cu124", "torch==2.6.0+cu124", False),
    ],
)
def test_present_torch_is_kept_and_an_absent_one_announced(
    checkout: Checkout, torch: str, expected: str, announced: bool
) -> None:
    done = checkout.run("./run.sh", "--recipe", "made", TORCH=torch)
    constraints = Path(pip_calls(checkout)[0][-1]).read_text()
    assert re.findall("^torch==.*", constraints, re.MULTILINE) == [expected]
    assert ("sympy==" in constraints) == (expected == "torch==2.13.0")
    assert "numpy==" in constraints
    assert ("about 190 MB" in done.stdout) == announced


def test_missing_compiler_is_said(checkout: Checkout) -> None:
    done = checkout.run("./run.sh", "--recipe", "made", CXX="no-such-compiler -x")
    assert done.returncode == 0
    assert "No C++ compiler was found" in done.stdout


def base_python(folder: Path, *, lacking: str) -> dict[str, str]:
    """Variables for a machine without active environment whose Python lacks something."""
    real = Path(sys.base_prefix, "bin", "python3")
    stub = f'#!/bin/sh\ncase "$*" in *"{lacking}"*) exit 1 ;; esac\nexec "{real}" "$@"\n'
    for name in ("python", "python3", *(f"python3.{minor}" for minor in range(11, 16))):
        executable(folder / name, stub)
    return {
        "VIRTUAL_ENV": "",
        "CONDA_DEFAULT_ENV": "",
        "PATH": f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin",
    }


def test_missing_venv_module_is_explained(checkout: Checkout, tmp_path: Path) -> None:
    variables = base_python(tmp_path / "bin", lacking="import venv")
    done = checkout.run("./run.sh", "--recipe", "made", **variables)
    assert done.returncode == 1
    assert "lacks the modules venv and ensurepip" in done.stderr
    assert "python3-venv" in done.stderr
    assert not (checkout.folder / ".venv").exists()


def test_too_old_a_python_is_explained(checkout: Checkout, tmp_path: Path) -> None:
    variables = base_python(tmp_path / "bin", lacking="sys.version_info")
    done = checkout.run("./run.sh", "--recipe", "made", **variables)
    assert done.returncode == 1
    assert "Python 3.11 or newer is needed" in done.stderr


@pytest.mark.parametrize(("torch", "see"), [("2.9.1", ["--system-site-packages"]), ("", [])])
def test_new_environment_sees_the_torch_of_the_system(
    checkout: Checkout, tmp_path: Path, torch: str, see: list[str]
) -> None:
    executable(tmp_path / "bin/python3", STUB)
    variables = base_python(tmp_path / "unused", lacking="nothing")
    variables["PATH"] = f"{tmp_path}/bin{os.pathsep}/usr/bin{os.pathsep}/bin"
    base = str(Path(sys.base_prefix, "bin", "python3"))
    checkout.run("./run.sh", "--recipe", "made", **variables, REAL_PYTHON=base, TORCH=torch)
    made = [call for call in checkout.calls("python3") if call[:2] == ["-m", "venv"]]
    assert made == [["-m", "venv", "--clear", *see, str(checkout.folder / ".venv")]]


def test_test_script_stops_at_the_first_failure(checkout: Checkout) -> None:
    for name in ("ruff", "mypy", "shellcheck", "pytest"):
        executable(checkout.environment / "bin" / name, STUB)
    (checkout.folder / ".ci").mkdir()
    assert checkout.run("./test.sh", "--slow", "-k", "two words").returncode == 0
    assert checkout.calls("ruff") == [["check"], ["format", "--check"]]
    (arguments,) = checkout.calls("pytest")
    assert arguments[-4:] == ["-m", "not kaldi and not gpu", "-k", "two words"]
    assert checkout.run("./test.sh", FAILING="format").returncode == 3
    assert len(checkout.calls("pytest")) == 1
