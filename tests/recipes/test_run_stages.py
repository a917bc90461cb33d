"""run.sh: the stages of recipes, with Kaldi and without, and failing."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.script_stubs import Checkout, executable


@pytest.mark.slow
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
        [
            *("train", config, f"--set=data.dir='{out}'", f"--set=data.index='{out}/index'"),
            *("--set=seed=1", "--nproc", "2", "--out", run),
        ],
        ["forward", run, "--on", "dev"],
        ["forward", run, "--on", "test"],
        ["decode", run, "--on", "dev", "--nj", "3"],
        ["decode", run, "--on", "test", "--nj", "3"],
        ["score", run, "--nj", "3"],
        ["report", out],
    ]
    assert done.stdout.endswith("| system | dev | test |\n")
    assert {log.name for log in Path(run, "log").glob("*.log")} == {
        *("train.log", "score.log"),
        *(f"{verb}_{part}.log" for verb in ("forward", "decode") for part in ("dev", "test")),
    }


SHORTER = ("--features", "mfcc")
GMM = ("./run.sh", "--recipe", "gmm", "--corpus", ".", "--nj", "2", "--stop-stage", "3")


PARTS = [  # stages of run.sh, and what they are of the scripts of GMMs
    ("0-3", [["--stage", "1", "--stop-stage", "1"], ["--stop-stage", "0"], ["--stage", "2"]]),
    ("1-1", [["--stage", "1", "--stop-stage", "1"]]),
    ("2-2", [["--stop-stage", "0"], ["--stage", "2"]]),
    ("3-3", []),
]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["KALDI_ROOT", "path.sh", "here before"])
def test_stages_1_and_2_are_kaldis_where_there_is_kaldi(checkout: Checkout, how: str) -> None:
    out = checkout.folder / "exp/gmm"
    if how == "path.sh":
        (checkout.folder / "path.sh").touch()
    if how == "here before":
        out.mkdir(parents=True)
        (out / "path.sh").touch()
    variables = {"KALDI_ROOT": "/kaldi" if how == "KALDI_ROOT" else ""}
    done = checkout.run(*GMM, "--dim", "50", "--force", **variables)
    assert done.returncode == 0, done.stderr
    recipe = checkout.folder / "recipes/gmm"
    prepare = [str(recipe / "prepare.py"), "--out", str(out), "--corpus", "."]
    assert [call for call in checkout.calls("python") if call[0] == prepare[0]] == [prepare]
    command = ["--recipe", str(recipe), "--out", str(out), "--nj", "2", "--dim", "50", "--force"]
    assert checkout.calls("kaldi_gmm.sh") == [[*command, *part] for part in PARTS[0][1]]
    assert not checkout.calls("gmm.sh")
    assert checkout.calls("bayes-asr")[0][:2] == ["train", str(recipe / "config.yaml")]


@pytest.mark.slow
@pytest.mark.parametrize(("stages", "parts"), PARTS[1:])
def test_stages_1_and_2_are_divided_with_kaldi_too(
    checkout: Checkout, stages: str, parts: list[list[str]]
) -> None:
    first, last = stages.split("-")
    words = ("--stage", first, "--stop-stage", last)
    done = checkout.run(*GMM[:-2], *words, KALDI_ROOT="/kaldi")
    assert done.returncode == 0, done.stderr
    assert [call[6:] for call in checkout.calls("kaldi_gmm.sh")] == parts


@pytest.mark.slow
@pytest.mark.parametrize(("stages", "parts"), PARTS)
def test_stages_1_and_2_are_our_gmms_where_there_is_no_kaldi(
    checkout: Checkout, stages: str, parts: list[list[str]]
) -> None:
    """Stage 1 makes the features of sound, and stage 2 all that does not change them."""
    first, last = stages.split("-")
    recipe, out = checkout.folder / "recipes/gmm", checkout.folder / "exp/gmm"
    (recipe / "without_kaldi.sh").touch()
    words = ("--dim", "50", "--stage", first, "--stop-stage", last)
    done = checkout.run(*GMM[:-2], *words, KALDI_ROOT="")
    assert done.returncode == 0, done.stderr
    command = ["--recipe", str(recipe), "--out", str(out), "--nj", "2", "--dim", "50"]
    command += ["--config", str(recipe / "config.yaml")]
    assert checkout.calls("gmm.sh") == [[*command, *part] for part in parts]
    assert not checkout.calls("kaldi_gmm.sh")
    trained = [call[1:3] for call in checkout.calls("bayes-asr")]
    expected = [[str(recipe / "config.yaml"), f"--set=data.dir='{out}'"]] if last == "3" else []
    assert trained == expected, "and the network is that of fMLLR features"


@pytest.mark.slow
def test_our_gmms_keep_to_the_limit_of_the_configuration(checkout: Checkout) -> None:
    (checkout.folder / "recipes/gmm/without_kaldi.sh").touch()
    done = checkout.run(*GMM, "--set", "data.max_skipped=0.2", KALDI_ROOT="")
    assert done.returncode == 0, done.stderr
    calls = checkout.calls("gmm.sh")
    assert len(calls) == 3
    assert all(call[call.index("--max-skipped") + 1] == "0.2" for call in calls)


@pytest.mark.slow
def test_filter_banks_stand_beside_what_gmms_read(checkout: Checkout) -> None:
    """The names of the sets are the recipe's; what GMMs have of an utterance, it keeps."""
    recipe, out = checkout.folder / "recipes/gmm", checkout.folder / "exp/gmm"
    (recipe / "kaldi.sh").write_text("sets=(train dev eval)\n")
    shutil.copy(ROOT / "conf/fbank.yaml", checkout.folder / "conf")
    for name in ("train", "dev", "eval"):
        data = out / "data" / name
        data.mkdir(parents=True)
        for file in ("wav.scp", "text", "utt2spk", "feats.scp", "cmvn.ark"):
            (data / file).write_text(file)
    done = checkout.run(*GMM, "--features", "fbank", KALDI_ROOT="")
    assert done.returncode == 0, done.stderr
    assert len(checkout.calls("gmm.sh")) == 3
    *banks, train = checkout.calls("bayes-asr")
    folders = [out / "data-fbank" / name for name in ("train", "dev", "eval")]
    assert banks == [["features", "--kind", "fbank", str(folder)] for folder in folders]
    for folder in folders:
        assert {file.name for file in folder.iterdir()} == {"wav.scp", "text", "utt2spk"}
    assert train[1:3] == [str(recipe / "config.yaml"), str(checkout.folder / "conf/fbank.yaml")]
    (recipe / "kaldi.sh").write_text("sets=(train dev eval) dither=1\n")
    assert checkout.run(*GMM, "--features", "fbank", KALDI_ROOT="").returncode == 0
    noisy = [call for call in checkout.calls("bayes-asr") if call[0] == "features"][-3:]
    assert noisy == [
        ["features", "--kind", "fbank", str(folder), "--dither=1"] for folder in folders
    ]
    (out / "data/eval/wav.scp").unlink()
    done = checkout.run(*GMM, "--features", "fbank", "--force", KALDI_ROOT="")
    assert done.returncode == 1
    assert f"{out}/data/eval has no wav.scp: filter banks are computed of sound" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kaldi", ["", "/kaldi"])
def test_shorter_way_through_stages_1_and_2_is_the_recipes_own(
    checkout: Checkout, kaldi: str
) -> None:
    recipe, out = checkout.folder / "recipes/gmm", checkout.folder / "exp/gmm"
    (recipe / "without_kaldi.sh").write_text(
        'configuration+=("$recipe_dir/less.yaml")\n'
        'run_stage 2 alignments "$out" -- bayes-asr align --on train\n'
    )
    for stage, verbs in (("0", ["align", "train"]), ("3", ["train"])):
        before = len(checkout.calls("bayes-asr"))
        done = checkout.run(*GMM, *SHORTER, "--stage", stage, KALDI_ROOT=kaldi)
        assert done.returncode == 0, done.stderr
        called = checkout.calls("bayes-asr")[before:]
        assert [call[0] for call in called] == verbs
        configurations = [str(recipe / name) for name in ("config.yaml", "less.yaml")]
        assert called[-1][1:4] == [*configurations, f"--set=data.dir='{out}'"]
    assert not checkout.calls("kaldi_gmm.sh") + checkout.calls("gmm.sh")


@pytest.mark.slow
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
    done = checkout.run(*GMM, *SHORTER, "--stage", "1", KALDI_ROOT="")
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
            ["train", *described, f"--set=data.dir='{out}'", *labels, "--out", aligner],
            [*align, aligner, "--on", "train", "--nj", "2", "--out", f"{exp}/{made}_ali"],
            [*align, aligner, "--on", "dev", "--nj", "2", "--out", f"{exp}/{made}_ali_dev"],
        ]
    *before, last = checkout.calls("bayes-asr")
    assert before == expected
    assert last[:4] == ["train", *configurations, f"--set=data.dir='{out}'"]


@pytest.mark.slow
def test_files_of_a_recipe_are_those_of_the_nearest_folder(checkout: Checkout) -> None:
    """A changed script, its own or of a recipe that it builds on, has stage 0 run again."""
    gmm, small = checkout.folder / "recipes/gmm", checkout.folder / "recipes/small"
    small.mkdir()
    (small / "config.yaml").write_text("include: ../gmm/config.yaml\n")
    (gmm / "corpus.py").touch()
    (gmm / ".#prepare.py").touch()
    command = ("./run.sh", "--recipe", "small", "--corpus", ".", "--stop-stage", "2")
    done = checkout.run(*command, "--experiment", "pair", KALDI_ROOT="")
    assert done.returncode == 0, done.stderr
    out = checkout.folder / "exp/small"
    assert checkout.calls("gmm.sh")[0][:2] == ["--recipe", str(gmm)]
    prepare = f"python {gmm}/prepare.py --out {out} --corpus . "
    scripts = (gmm / "corpus.py", gmm / "prepare.py")
    files = [f"{path} 0 {path.stat().st_mtime_ns}\n" for path in scripts]
    stamp = (out / "log/prepare.done").read_text()
    assert stamp == prepare + "".join(files), "as in version 0.1: what was complete stays so"
    assert "prepare: complete" in checkout.run(*command, KALDI_ROOT="").stdout
    (small / "corpus.py").touch()
    assert "prepare: complete" not in checkout.run(*command, KALDI_ROOT="").stdout


@pytest.mark.slow
def test_gmms_are_compared_before_the_networks_of_an_experiment(checkout: Checkout) -> None:
    command = ("./run.sh", "--recipe", "gmm", "--corpus", ".", "--experiment", "pair")
    out = checkout.folder / "exp/gmm"
    for kaldi, gmms in (("", [f"{out}/gmm"]), ("/kaldi", [])):
        done = checkout.run(*command, KALDI_ROOT=kaldi)
        assert done.returncode == 0, done.stderr
        compared = [*gmms, f"{out}/gru", f"{out}/lstm", "--out", f"{out}/report_pair"]
        assert checkout.calls("bayes-asr")[-1] == ["report", *compared]
    listed = "systems: {gru: , lstm: {model: {layers: 1}}}\nhypotheses: [x = gru < y = lstm]\n"
    (checkout.folder / "conf/experiments/listed.yaml").write_text(listed)
    done = checkout.run(*command[:-1], "listed", KALDI_ROOT="/kaldi")
    assert "Open exp/gmm/report_listed/report.html in a browser" in done.stderr


@pytest.mark.slow
def test_folders_are_spelled_from_the_root_as_the_shell_does(checkout: Checkout) -> None:
    """A link stays one, so that the same command finds its stages complete; so does another way to
    spell the folder.
    """
    (checkout.folder / "link").symlink_to(".")
    command = 'cd link && ./run.sh --recipe made --out "$0" --stop-stage 6'
    for number, out in enumerate(("./a/", "a", "../link/a", "./b/../a//")):
        done = checkout.run("bash", "-euc", command, out)
        assert done.returncode == 0, done.stderr
        assert ("decode_dev: complete" in done.stdout) == (number > 0)
    calls = [call for call in checkout.calls("python") if call[0].endswith("prepare.py")]
    assert calls[0][1:] == ["--out", f"{checkout.folder}/link/a"]
    assert all(call == calls[0] for call in calls)


@pytest.mark.slow
@pytest.mark.parametrize(("here", "folder"), [("", "./"), ("", "../made/."), ("below", "..")])
def test_recipe_of_the_working_directory_has_its_name(
    checkout: Checkout, here: str, folder: str
) -> None:
    (checkout.folder / "recipes/made/below").mkdir()
    command = 'cd "recipes/made/$1" && "$0/run.sh" --recipe "$2/" --stop-stage 3'
    done = checkout.run("bash", "-euc", command, str(checkout.folder), here, folder)
    assert done.returncode == 0, done.stderr
    (train,) = [call for call in checkout.calls("bayes-asr") if call[0] == "train"]
    assert train[-1] == f"{checkout.folder}/exp/made/made/seed1"


@pytest.mark.slow
def test_failing_stage_stops_with_its_status_and_names_its_log(checkout: Checkout) -> None:
    done = checkout.run("./run.sh", "--recipe", "made", FAILING="decode")
    log = checkout.folder / "exp/made/made/seed1/log/decode_dev.log"
    assert done.returncode == 3
    assert f"Stage 5 (decode_dev) failed with status 3; its log is {log}" in done.stderr
    assert "it went wrong" in log.read_text()
    called = [call[0] for call in checkout.calls("bayes-asr")]
    assert called == ["train", "forward", "forward", "decode"]


@pytest.mark.slow
def test_stage_inside_a_stage_fails_once(checkout: Checkout) -> None:
    """The user has run.sh, so stages and options are spoken of as it has them."""
    inner = (
        'set -euo pipefail\nscript=gmm.sh\n. "${0%/*}/stages.sh"\nstage=0 stop_stage=8 force=\n'
        'run_stage 3 gmm_tri1 "$PWD" -- bash -c \'echo "options of $BAYES_ASR_STAGE_OF"; exit 4\'\n'
    )
    executable(checkout.folder / "local/gmm.sh", f"#!/usr/bin/env bash\n{inner}")
    done = checkout.run(*GMM, "--stage", "2", KALDI_ROOT="")
    assert done.returncode == 4
    assert "options of run.sh" in done.stdout
    said = done.stdout + done.stderr
    assert said.count("failed with status 4") == 1
    assert "Stage 2 (language) failed with status 4; its log is" in done.stderr


@pytest.mark.slow
def test_end_tells_the_times_and_what_comes_next(checkout: Checkout) -> None:
    """On standard error, as the table ends standard output."""
    done = checkout.run("./run.sh", "--recipe", "made")
    assert done.returncode == 0, done.stderr
    steps = ("prepare", "doctor", "train", "forward", "decode", "score", "report")
    times = ", ".join(f"{step} 0:00:0[0-9]" for step in ("setting up", *steps))
    took, transcribe, report = done.stderr.splitlines()
    assert re.fullmatch(f"Took 0:00:[0-9]{{2}}: {times}", took)
    assert transcribe.startswith("bayes-asr transcribe exp/made/made/seed1 FILE...  ")
    assert report == "Open exp/made/report/report.html in a browser"
    again = checkout.run("./run.sh", "--recipe", "made", "--stage", "4", "--stop-stage", "6")
    assert re.fullmatch("Took 0:00:[0-9]{2}\n", again.stderr), "all was complete"
    pair = checkout.run("./run.sh", "--recipe", "made", "--experiment", "pair")
    assert "Open exp/made/report_pair/report.html in a browser" in pair.stderr
    checkout.run(*GMM[:-2], KALDI_ROOT="")
    assert "transcribe" not in checkout.run(*GMM[:-2], KALDI_ROOT="").stderr
    data = checkout.folder / "exp/gmm/data/train"
    data.mkdir(parents=True)
    (data / "wav.scp").touch()
    assert "transcribe exp/gmm/gmm/seed1" in checkout.run(*GMM[:-2], KALDI_ROOT="").stderr
    assert "transcribe" not in checkout.run(*GMM[:-2], KALDI_ROOT="/kaldi").stderr


@pytest.mark.slow
def test_bars_go_to_the_terminal_of_the_script(checkout: Checkout) -> None:
    """Through tee there is none; where the script has none, neither has the command."""
    executable(
        checkout.environment / "bin" / "bayes-asr",
        '#!/usr/bin/env bash\necho "bars go to ${BAYES_ASR_TERMINAL-nowhere}"\n',
    )
    command = ("./run.sh", "--recipe", "given", "--kaldi-dir", ".")
    assert "bars go to nowhere\n" in checkout.run(*command).stdout
    ours, theirs = os.openpty()
    try:
        variables = os.environ | checkout.variables
        done = subprocess.run(
            command,
            cwd=checkout.folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
        )
        assert f"bars go to {os.ttyname(theirs)}\n" in done.stdout
    finally:
        os.close(ours)
        os.close(theirs)
