"""Verbs whose work is shared among jobs: the same bytes as alone, and what becomes of lost jobs."""

import os
import shutil
import wave
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base import shards
from bayes_asr.base.jobs import JOB, run_array
from bayes_asr.base.lock import alone_in
from bayes_asr.cli import main
from bayes_asr.config.merge import load
from bayes_asr.decode.forward import batches
from tests.support.kaldi_jobs import CMD, Jobs, find_script, write_run
from tests.support.places import CONF, ROOT
from tests.support.small_corpus import settings
from tests.support.spoken_corpus import write_spoken_experiment

COUNTS = {"train": 12, "dev": 20, "test": 5}
SMALL_GROUPS = "import bayes_asr.decode.forward.batches as b; b.BATCH_SEQUENCES = 3"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run with log-likelihoods and words of dev and test, in a folder named JOB."""
    root = write_spoken_experiment(tmp_path_factory.mktemp("JOB"), COUNTS)
    more = ("train.epochs=3", "data.graph=[graph]", "score.metric=wer", "decode.lm_weights=[1,5]")
    train = ["train", str(CONF / "base.yaml"), *settings(root, *more), f"--out={root / 'run'}"]
    assert main(train) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "BATCH_SEQUENCES", 3)
        for name in ("dev", "test"):
            assert main(["forward", str(root / "run"), f"--on={name}"]) == 0
    for name in ("dev", "test"):
        assert main(["decode", str(root / "run"), f"--on={name}"]) == 0
    return root


@pytest.fixture
def small_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute few utterances together, here and in jobs, which find this package."""
    (tmp_path / "sitecustomize.py").write_text(SMALL_GROUPS)
    monkeypatch.setattr(batches, "BATCH_SEQUENCES", 3)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def jobs(small_groups: None, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """What runs the jobs of CMD."""
    found = Jobs()
    monkeypatch.setattr(shards, "run_array", found)
    return found


def contents(folder: Path, *, skip: tuple[str, ...] = ("log", "shards")) -> dict[str, bytes]:
    """The files below a folder, those of jobs left out."""
    return {
        str(path.relative_to(folder)): path.read_bytes().replace(bytes(folder), b"FOLDER")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not set(path.relative_to(folder).parts) & set(skip)
    }


def forward(corpus: Path, out: Path, *more: str) -> int:
    return main(["forward", str(corpus / "run"), "--on=dev", f"--out={out}", *more])


def decode(corpus: Path, out: Path, *more: str) -> int:
    return main(["decode", str(corpus / "run"), "--on=dev", f"--out={out}", *more])


def align(corpus: Path, out: Path, *more: str) -> int:
    lang = f"--lang={corpus / 'dict'}"
    return main(["align", str(corpus / "run"), "--on=dev", lang, f"--out={out}", *more])


def layer(corpus: Path, out: Path, *more: str) -> int:
    return forward(corpus, out, "--layer=layer1", *more)


def average(corpus: Path, out: Path, *more: str) -> int:
    """Log-likelihoods of the average of the run with itself."""
    both = corpus / "average"
    run = str(corpus / "run")
    assert both.exists() or main(["combine", run, run, f"--out={both}"]) == 0
    return main(["forward", str(both), "--on=dev", f"--out={out}", *more])


@pytest.mark.slow
@pytest.mark.parametrize("verb", [forward, layer, average, decode, align])
def test_jobs_write_the_bytes_of_one_process(
    corpus: Path, tmp_path: Path, jobs: Jobs, verb: Callable[..., int]
) -> None:
    assert verb(corpus, tmp_path / "alone") == 0
    assert verb(corpus, tmp_path / "shared", f"--cmd={CMD}", "--nj=3") == 0
    assert jobs.calls == [(1, 3)]
    assert contents(tmp_path / "shared") == contents(tmp_path / "alone") != {}
    left = sorted(path.name for path in (tmp_path / "shared" / "log").iterdir())
    name = "forward" if verb in (layer, average) else verb.__name__
    assert left == [f"{name}.{job}.log" for job in (1, 2, 3)]
    assert not (tmp_path / "shared" / "shards").exists()


@pytest.mark.slow
@pytest.mark.parametrize("script", ["stand-in", "run.pl"])
def test_scripts_of_kaldi_start_the_jobs(
    corpus: Path,
    tmp_path: Path,
    small_groups: None,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
) -> None:
    found = str(write_run(tmp_path / "bin")) if script == "stand-in" else find_script(script)
    if found is None:
        pytest.skip("Kaldi's run.pl is neither below KALDI_ROOT nor on PATH")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "json.py").write_text("raise SystemExit('not what is meant')\n")
    monkeypatch.chdir(tmp_path / "here")
    assert forward(corpus, tmp_path / "alone") == 0
    assert forward(corpus, tmp_path / "shared", f"--cmd={found} --mem 2G", "--nj=2") == 0
    assert contents(tmp_path / "shared") == contents(tmp_path / "alone") != {}


@pytest.mark.slow
def test_features_and_scores_are_those_of_one_process(
    corpus: Path, tmp_path: Path, jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("kaldi_native_fbank")
    data = tmp_path / "alone"
    data.mkdir()
    rng = np.random.default_rng(0)
    for name in "abcd":
        with wave.open(str(data / f"{name}.wav"), "wb") as file:
            file.setparams((1, 2, 16000, 0, "NONE", ""))
            file.writeframes(rng.integers(-9000, 9000, 16000, np.int16).tobytes())
    (data / "wav.scp").write_text("".join(f"{name} {name}.wav\n" for name in "abcd"))
    segments = [(f"{name}{k}", name, k / 4, k / 4 + 0.25) for name in "abcd" for k in range(3)]
    (data / "segments").write_text("".join(f"{u} {r} {b} {e}\n" for u, r, b, e in segments))
    (data / "utt2spk").write_text("".join(f"{u} {r}\n" for u, r, _, _ in segments))
    shared, third = tmp_path / "shared", tmp_path / "third"
    shutil.copytree(data, shared)
    shutil.copytree(data, third)
    given = ["features", "--sample-rate=8000"]
    assert main([*given, str(data)]) == 0
    said = capsys.readouterr().err
    assert "a.wav (a) (and 3 more): resampled from 16000 to 8000 Hz" in said
    assert main([*given, str(shared), str(third), f"--cmd={CMD}", "--nj=2"]) == 0
    assert said.replace(str(data), str(third)).splitlines()[0] in capsys.readouterr().err
    assert contents(shared) == contents(third) == contents(data)
    assert jobs.calls == [(1, 2)]  # those of the first folder did the second too

    run = tmp_path / "run"
    shutil.copytree(corpus / "run", run)
    assert main(["score", str(run), "--oracle-lmwt"]) == 0
    written = {name: (run / name).read_bytes() for name in ("score_dev.json", "score_test.json")}
    for name in written:
        (run / name).unlink()
    assert main(["score", str(run), "--oracle-lmwt", f"--cmd={CMD}", "--nj=2"]) == 0
    assert written == {name: (run / name).read_bytes() for name in written}


@pytest.mark.slow
def test_a_lost_shard_is_named_and_repeated_alone(
    corpus: Path, tmp_path: Path, jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    out, given = tmp_path / "out", (f"--cmd={CMD}", "--nj=3")
    jobs.lost = {2}
    assert forward(corpus, out, *given) == 1
    log = out / "log" / "forward.2.log"
    said = capsys.readouterr().err.splitlines()[-1]
    assert "shard 2 of 3 is lost" in said
    assert f"{log}: no message" in said
    assert sorted(path.name for path in (out / "shards").iterdir()) == ["1of3.zip", "3of3.zip"]
    assert not (out / "loglikes.ark").exists()
    jobs.lost = set()
    assert forward(corpus, out, *given) == 0
    assert jobs.calls == [(1, 3), (2, 2)]
    assert forward(corpus, tmp_path / "alone") == 0
    assert contents(out) == contents(tmp_path / "alone")


def test_a_job_leaves_the_record_of_the_search(corpus: Path, tmp_path: Path) -> None:
    assert decode(corpus, tmp_path / "out") == 0
    before = contents(tmp_path / "out")
    assert "decode.json" in before
    assert decode(corpus, tmp_path / "out", "--shard=1/2", "--beam=10") == 0
    assert contents(tmp_path / "out") == before


def test_an_error_of_a_job_is_said(
    corpus: Path, tmp_path: Path, small_groups: None, capsys: pytest.CaptureFixture[str]
) -> None:
    script = write_run(tmp_path / "bin", before="echo 'no room'; exit 1;")
    assert forward(corpus, tmp_path / "out", f"--cmd={script}", "--nj=2") == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert "shard 1, 2 of 2 is lost" in said
    assert "forward.2.log: no room" in said


def change_table(corpus: Path) -> None:
    os.utime(corpus / "data" / "dev" / "utt2spk")


def change_network(corpus: Path) -> None:
    os.utime(corpus / "run" / "best.pt")


def change_archive(corpus: Path) -> None:
    os.utime(corpus / "data" / "dev" / "feats.ark")


@pytest.mark.slow
@pytest.mark.parametrize("change", [change_table, change_network, change_archive, None])
def test_shards_of_other_inputs_or_options_are_not_used(
    corpus: Path, tmp_path: Path, jobs: Jobs, change: Callable[[Path], None] | None
) -> None:
    jobs.lost, given = {1}, (f"--cmd={CMD}", "--nj=2")
    assert forward(corpus, tmp_path / "out", *given) == 1
    if change:
        change(corpus)
    more = () if change else ("--max-skipped=0.5",)
    assert forward(corpus, tmp_path / "out", *given, *more) == 1
    assert jobs.calls == [(1, 2), (1, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("key", ["data.moved", "data.train.features_all_of"])
def test_shards_of_other_archives_elsewhere_are_not_used(
    corpus: Path, tmp_path: Path, jobs: Jobs, key: str
) -> None:
    """Also where the archive is in a second directory of the set, or a folder that has moved."""
    shutil.copytree(corpus / "run", tmp_path / "run")
    archive = corpus / "data" / "test" / "feats.ark"
    value = "[data/dev, data/test]"
    if key == "data.moved":
        shutil.copytree(corpus / "data", tmp_path / "moved")
        archive, value = tmp_path / "moved" / "dev" / "feats.ark", str(tmp_path / "moved")
        value = f"['{corpus / 'data'}={value}']"
    config = load([tmp_path / "run" / "config.yaml"], [f"{key}={value}"])
    (tmp_path / "run" / "config.yaml").write_text(config.yaml)
    on = "--on=dev" if key == "data.moved" else "--on=train"
    given = ("forward", str(tmp_path / "run"), on, f"--cmd={CMD}", "--nj=2")
    jobs.lost = {1}
    assert main(list(given)) == 1
    os.utime(archive)
    assert main(list(given)) == 1
    assert jobs.calls == [(1, 2), (1, 2)]
    assert main(list(given)) == 1
    assert jobs.calls[2] == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["truncated", "entry", "foreign"])
def test_a_damaged_shard_is_found_and_runs_nothing(
    corpus: Path, tmp_path: Path, jobs: Jobs, damage: str
) -> None:
    out, given = tmp_path / "out", (f"--cmd={CMD}", "--nj=2")
    jobs.lost = {1}
    assert forward(corpus, out, *given) == 1
    jobs.lost = set()
    shard = out / "shards" / "2of2.zip"
    content = shard.read_bytes()
    if damage == "truncated":
        shard.write_bytes(content[:-10])
    elif damage == "entry":
        shard.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    else:
        with zipfile.ZipFile(shard) as file:
            names, comment = file.namelist(), file.comment
        with zipfile.ZipFile(shard, "w") as file:
            for name in names:
                file.writestr(name, b"cos\nsystem\n(S'touch %s'\ntR." % bytes(tmp_path / "ran"))
            file.comment = comment
    if damage != "truncated":
        assert forward(corpus, out, *given) == 1  # found where it is read
    assert forward(corpus, out, *given) == 0
    again = [(1, 2)] if damage == "truncated" else [(1, 1), (2, 2)]
    assert jobs.calls == [(1, 2), *again]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("word", ["a b", "it's", "$HOME", "JOB", 'x"y', "ä;(`|&", "JOBJOB0"])
def test_words_reach_a_job_as_they_are(
    tmp_path: Path, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = [str(write_run(tmp_path / "bin")), *filter(None, [find_script("run.pl")])]
    for number, script in enumerate(scripts):
        log = tmp_path / f"JOB{number}.{JOB}.log"
        run_array(["printf", "%s\n", word, f"{word}{JOB}"], 2, 3, log, script)
        said = (tmp_path / f"JOB{number}.3.log").read_text().splitlines()
        assert [line for line in said if line[:1] != "#"] == [word, f"{word}3"]


def test_a_log_that_scripts_cannot_write_is_refused(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert forward(corpus, tmp_path / "a b", "--cmd=run.pl") == 1
    assert "white space" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--cmd=run.pl 'x"], "No closing quotation"),
        (["--cmd= "], "names no script"),
        (["--cmd=no-such.pl"], "no-such.pl is not"),
    ],
)
def test_scripts_that_cannot_be_are_refused(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str], message: str
) -> None:
    assert forward(corpus, tmp_path / "out", *given) == 1
    (said,) = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert message in said


@pytest.mark.slow
def test_jobs_without_a_script_are_refused(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert forward(corpus, tmp_path / "out", "--nj=2") == 1
    assert "--cmd run.pl" in capsys.readouterr().err
    assert main(["decode", str(corpus / "run"), "--on=dev", "--backend=kaldi", "--shard=1/2"]) == 1
    assert "embedded" in capsys.readouterr().err
    for wrong in ("0/2", "2/", "1/2/3", "3/2", "2", "1/0", "1/1001", "1/100000000000000000000"):
        with pytest.raises(SystemExit):
            forward(corpus, tmp_path / "out", f"--shard={wrong}")


def test_a_second_call_waits_for_the_first(
    corpus: Path, tmp_path: Path, jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    with alone_in(tmp_path / "out" / "shards"):
        assert forward(corpus, tmp_path / "out", f"--cmd={CMD}") == 1
    assert "another process is at work" in capsys.readouterr().err
    assert not jobs.calls
