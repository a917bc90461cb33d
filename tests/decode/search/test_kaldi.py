"""The Kaldi backend: its command lines with stub programs, and real Kaldi where there is one."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import kaldialign
import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.base.jobs import JOB, run_jobs
from bayes_asr.base.kaldi_programs import find_program
from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.decode.lattices.paths import Weights, pair_weights
from bayes_asr.decode.search.archive import choose_decoder, decode_archive
from bayes_asr.decode.search.job import DecodeJob, DecodeSummary
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.kaldi_io.lattice_files import iter_lattices
from bayes_asr.kaldi_io.text import read_text
from tests.support.decode_cases import CASES, golden_case, write_small_graph
from tests.support.kaldi_jobs import write_run

OPTIONS = SearchOptions(0.1, beam=13.0, max_active=7000, lattice_beam=8.0, allow_partial=True)

# Each stub writes its arguments to $CALLS/NAME, one a line, and does just enough.
SAY = 'printf "%s\\n" "$@" >> "$CALLS/$(basename "$0")"\n'
READ = 'command=${1#ark:}; sh -c "${command%|}" > /dev/null || exit 3\n'
STUBS = {
    "latgen-faster-mapped": """
for last; do :; done
echo "Outputting partial output for utterance b since no final-state reached" >&2
case "$*" in *broken*) echo "ERROR: cannot read it" >&2; exit 255;; esac
echo lattices | sh -c "${last#ark:|}"
""",
    "lattice-1best": "cat\n",
    "lattice-scale": "cat\n",
    "lattice-add-penalty": "cat\n",
    "nbest-to-linear": READ
    + """
printf 'a 1 2 \\nb 1 \\n' > "${3#ark,t:}"
printf 'a 1.5 \\nb 2.5 \\n' > "${4#ark,t:}"
printf 'a -10 \\nb -20 \\n' > "${5#ark,t:}"
""",
    "lattice-best-path": READ + "printf 'a 2 \\nb \\n' > \"${2#ark,t:}\"\n",
    "lattice-mbr-decode": READ + "printf 'a 1 \\nb 2 \\n' > \"${2#ark,t:}\"\n",
}
QUEUE = "queue.pl -l arch=*64* --mem 2G --max-jobs-run 10"
SLURM = "slurm.pl --config conf/slurm.conf --time 4:00:00"


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A KALDI_ROOT of stubs; the folder where they leave their arguments."""
    folder, root = tmp_path / "calls", tmp_path / "kaldi root"
    folder.mkdir()
    monkeypatch.setenv("CALLS", str(folder))
    monkeypatch.setenv("KALDI_ROOT", str(root))
    for name, body in STUBS.items():
        place = root / "src" / ("bin" if name.startswith("latgen") else "latbin") / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("#!/bin/sh\n" + SAY + body)
        place.chmod(0o755)
    scripts = root / "egs" / "wsj" / "s5" / "utils" / "parallel"
    for name in ("run.pl", "queue.pl", "slurm.pl"):
        write_run(scripts, name, note=SAY)
    return folder


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, Path]:
    """A small graph and four utterances, in a folder whose name has a space."""
    folder = tmp_path / "a place"
    graph = write_small_graph(folder / "graph")
    rng = np.random.default_rng(0)
    items = [(utt, rng.normal(size=(5, 3)).astype(np.float32)) for utt in "abcd"]
    write_matrices(items, folder / "loglikes.ark", folder / "loglikes.scp")
    return {"graph": graph, "model": graph / "final.mdl", "out": folder / "out"}


def decode(
    inputs: dict[str, Path],
    source: str = "loglikes.ark",
    *,
    grid: tuple[Weights, ...] = (),
    nj: int = 1,
    cmd: str = "",
    mbr: bool = False,
) -> DecodeSummary:
    loglikes = str(inputs["graph"].parent / source)
    job = DecodeJob(loglikes, inputs["graph"], inputs["model"], OPTIONS, grid, nj, mbr=mbr)
    return decode_archive(job, inputs["out"], backend="kaldi", cmd=cmd)


def test_programs_get_kaldis_options(calls: Path, inputs: dict[str, Path]) -> None:
    summary = decode(inputs, grid=((10.0, 0.5),))
    source = inputs["graph"].parent / "loglikes.ark"
    *options, output = (calls / "latgen-faster-mapped").read_text().splitlines()
    assert options == [
        "--acoustic-scale=0.1",
        "--beam=13.0",
        "--lattice-beam=8.0",
        "--max-active=7000",
        "--min-active=200",
        "--allow-partial=true",
        str(inputs["model"]),
        str(inputs["graph"] / "HCLG.fst"),
        f"ark:{source}",
    ]
    assert re.fullmatch(r"ark:\|gzip -c > '.*/a place/out/\.decode\.\w+'/lat\.1\.gz", output)
    assert not (calls / "lattice-mbr-decode").exists()
    names = STUBS.keys() - {"lattice-mbr-decode"}
    arguments = {name: (calls / name).read_text().splitlines() for name in names}
    assert arguments["lattice-1best"] == ["--acoustic-scale=0.1", "ark:-", "ark:-"]
    assert arguments["lattice-scale"] == ["--inv-acoustic-scale=10.0", "ark:-", "ark:-"]
    assert arguments["lattice-add-penalty"] == ["--word-ins-penalty=0.5", "ark:-", "ark:-"]
    out = inputs["out"]
    assert read_text(out / "words.txt") == {"a": ["yes", "no"], "b": ["yes"], "c": [], "d": []}
    assert read_text(out / "costs.txt")["a"] == ["1.5", "-10"]
    assert read_text(out / "words.lmwt10.wip0.5.txt")["a"] == ["no"]
    assert (summary.partial, summary.empty) == (["b"], ["c", "d"])
    assert sorted(path.name for path in (out / "log").iterdir()) == [
        "best_path.log",
        "decode.1.log",
        "rescore.lmwt10.wip0.5.log",
    ]
    assert (out / "log" / "decode.1.log").read_text().startswith("# '")


def test_words_of_least_expected_error_are_asked_for(calls: Path, inputs: dict[str, Path]) -> None:
    decode(inputs, grid=((10.0, 0.5),), mbr=True)
    assert not (calls / "lattice-best-path").exists()
    assert read_text(inputs["out"] / "words.lmwt10.wip0.5.txt")["a"] == ["yes"]


@pytest.mark.parametrize("cmd", ["", "run.pl", QUEUE, SLURM])
def test_scp_is_split_into_jobs(
    calls: Path, inputs: dict[str, Path], cmd: str, tmp_path: Path
) -> None:
    inputs["out"] = inputs["out"] if not cmd else tmp_path / "out"
    decode(inputs, "loglikes.scp", nj=3, cmd=cmd)
    assert sorted(path.name for path in inputs["out"].glob("lat.*.gz")) == [
        f"lat.{job}.gz" for job in (1, 2, 3)
    ]
    arguments = (calls / "latgen-faster-mapped").read_text().splitlines()
    parts = [line for line in arguments if line.startswith("scp:")]
    assert sorted(Path(part).name for part in parts) == [f"loglikes.{n}.scp" for n in (1, 2, 3)]
    if cmd:
        script, *options = cmd.split()
        first = (calls / script).read_text().splitlines()
        assert first[: len(options)] == options
        jobs, log, program, *_ = first[len(options) :]
        assert (jobs, log) == ("JOB=1:3", str(inputs["out"] / "log" / "decode.JOB.log"))
        said = subprocess.check_output(["bash", "-c", f"printf %s {program}"], text=True)
        assert said.endswith("/kaldi root/src/bin/latgen-faster-mapped")


def test_white_space_that_kaldis_scripts_cannot_take_is_refused(
    calls: Path, inputs: dict[str, Path]
) -> None:
    with pytest.raises(InputError, match=r"a place/.*queue\.pl cannot write to a path with white"):
        decode(inputs, cmd="queue.pl")


def test_bad_utterance_does_not_reach_kaldi(calls: Path, inputs: dict[str, Path]) -> None:
    source = inputs["graph"].parent / "loglikes.ark"
    content = bytearray(source.read_bytes())
    content[-4:] = np.float32(np.nan).tobytes()
    source.write_bytes(content)
    with pytest.raises(InputError, match=r"loglikes\.ark: d: log-likelihood nan at frame 4, pdf 2"):
        decode(inputs)
    given = (calls / "latgen-faster-mapped").read_text().splitlines()[-2]
    assert Path(given).name == "loglikes.ark"
    assert given != f"ark:{source}"
    assert read_text(inputs["out"] / "words.txt")["a"] == ["yes", "no"]


@pytest.mark.parametrize("cmd", ["", QUEUE])
def test_failed_job_names_its_log(
    calls: Path, inputs: dict[str, Path], cmd: str, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.mdl"
    broken.write_bytes(inputs["model"].read_bytes())
    inputs["out"] = inputs["out"] if not cmd else tmp_path / "out"
    with pytest.raises(InputError, match=r"latgen.* failed with status .*decode\.[1*]\.log: ERR"):
        decode({**inputs, "model": broken}, cmd=cmd)
    assert [path.name for path in inputs["out"].iterdir()] == ["log"]


def test_missing_program_is_named(
    calls: Path, inputs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert choose_decoder("kaldi", Path("log")).find_trouble() == ""
    (Path(os.environ["KALDI_ROOT"]) / "src" / "latbin" / "lattice-scale").unlink()
    monkeypatch.setenv("PATH", "/nowhere")
    trouble = choose_decoder("kaldi", Path("log")).find_trouble()
    assert re.match("lattice-scale is not below KALDI_ROOT=.* nor on PATH", trouble)
    with pytest.raises(InputError, match="lattice-scale is not below"):
        decode(inputs)
    monkeypatch.delenv("KALDI_ROOT")
    with pytest.raises(InputError, match=r"run\.pl is not on PATH, and KALDI_ROOT is not set"):
        find_program("run.pl")
    assert choose_decoder("embedded", Path("log")).find_trouble() == ""


def test_open_quote_in_the_command_of_jobs_is_told() -> None:
    assert '"run.pl' in choose_decoder("kaldi", Path("log"), '"run.pl').find_trouble()


def test_unknown_backend_is_refused() -> None:
    with pytest.raises(InputError, match="'k2': known backends are embedded, kaldi"):
        choose_decoder("k2", Path("log"))


def test_each_job_has_its_log(tmp_path: Path) -> None:
    run_jobs(["echo", f"job {JOB}"], 2, tmp_path / "log" / f"echo.{JOB}.log")
    logs = [(tmp_path / "log" / f"echo.{job}.log").read_text() for job in (1, 2)]
    assert logs == [f"# echo 'job {job}'\njob {job}\n" for job in (1, 2)]
    said = f"[ {JOB} = 1 ] || {{ echo two; exit 7; }}"
    with pytest.raises(InputError, match=r"sh failed with status 7, see .*sh\.2\.log: two"):
        run_jobs(["sh", "-c", said], 2, tmp_path / f"sh.{JOB}.log")


@pytest.mark.parametrize("cmd", ["", "run.pl", "run.pl --queue JOB_"])
def test_the_word_job_in_a_path_stays(cmd: str, calls: Path, tmp_path: Path) -> None:
    """Kaldi's scripts replace the name of the number wherever it stands."""
    folder = tmp_path / "JOBS" / "JOB"
    run_jobs(["echo", str(folder), JOB], 2, folder / f"echo.{JOB}.log", cmd)
    for job in "12":
        said = (folder / f"echo.{job}.log").read_text().splitlines()
        assert [line for line in said if line[:1] != "#"] == [f"{folder} {job}"]
    if cmd:
        name = "JOB__" if "JOB_" in cmd else "JOB_"
        assert f"{name}=1:2" in (calls / "run.pl").read_text()


@pytest.mark.kaldi
@pytest.mark.skipif("KALDI_ROOT" not in os.environ, reason="KALDI_ROOT is not set")
@pytest.mark.parametrize("mbr", [False, True])
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_real_kaldi_gives_what_the_embedded_decoder_gives(
    case: tuple[str, str], mbr: bool, kaldi_corpus: Callable[[str], Path], tmp_path: Path
) -> None:
    golden, results = golden_case(kaldi_corpus, *case), {}
    for backend in ("kaldi", "embedded"):
        grid = tuple(pair_weights([3.0, 1 / golden.scale, 20.0], [0.0, 1.0]))
        inputs = str(golden.loglikes), golden.graph, golden.model, golden.options("a"), grid
        decode_archive(DecodeJob(*inputs, mbr=mbr), tmp_path / backend, backend=backend)
        folder = tmp_path / backend
        results[backend] = {path.name: read_text(path) for path in folder.glob("*.txt")}
        results[backend]["lattices"] = [utt for utt, _ in iter_lattices(folder / "lat.1.gz")]
    kaldi, ours = results["kaldi"], results["embedded"]
    assert kaldi.keys() == ours.keys()
    assert kaldi["words.txt"] == ours["words.txt"] == golden.words("a.words")
    assert kaldi["lattices"] == ours["lattices"]
    for name in kaldi.keys() - {"costs.txt", "lattices"}:
        for utt, words in kaldi[name].items():
            # Costs of lattices differ by rounding; of equal risks each takes another hypothesis.
            edits = kaldialign.edit_distance(words, ours[name][utt])["total"]
            assert edits <= 1 + mbr, (name, utt)
    for utt, (graph, acoustic) in kaldi["costs.txt"].items():
        assert float(ours["costs.txt"][utt][0]) == pytest.approx(float(graph), abs=1e-2)
        assert float(ours["costs.txt"][utt][1]) == pytest.approx(float(acoustic), rel=1e-5)
