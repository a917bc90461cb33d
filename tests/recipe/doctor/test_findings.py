"""What the doctor says of an environment and of a corpus."""

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from bayes_asr.base import installed
from bayes_asr.cli import main
from bayes_asr.decode.graph.transducers import build_fst
from bayes_asr.decode.lattices import compiled as lattices
from bayes_asr.decode.search import compiled as decoder
from bayes_asr.decode.search import kaldi
from bayes_asr.decode.search.kaldi import PROGRAMS
from bayes_asr.kaldi_io.fst import write_fst
from bayes_asr.kaldi_io.openfst import Fst
from bayes_asr.nn.kernels.cpu import library as recurrence
from bayes_asr.recipe.doctor import environment, training_data
from bayes_asr.tasks.chain import compiled as chain
from bayes_asr.train import components
from tests.cli.test_bad_input import (
    damaged_model,
    empty_scp,
    foreign_transition_id,
    long_alignment,
    missing_ark,
    no_gzip,
)
from tests.support.places import CONF, ROOT
from tests.support.small_corpus import settings, write_corpus


def checks_of(
    capsys: pytest.CaptureFixture[str], *arguments: object
) -> tuple[int, dict[str, list[tuple[str, str]]]]:
    """The exit status, and (state, message) of the checks by their names."""
    status = main(["doctor", *map(str, arguments), "--json"])
    found: dict[str, list[tuple[str, str]]] = {}
    for check in json.loads(capsys.readouterr().out):
        found.setdefault(check["name"], []).append((check["state"], check["message"]))
    return status, found


def test_environment_alone_needs_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("KALDI_ROOT", raising=False)
    monkeypatch.setattr(installed, "find_spec", lambda name: None)
    status, found = checks_of(capsys)
    assert status == 0
    assert found["decoding by embedded"] == [("ok", "usable")]
    said = "not usable: latgen-faster-mapped is not on PATH, and KALDI_ROOT is not set"
    assert found["decoding by kaldi"][0][1].startswith(said)
    assert "KALDI_ROOT is not set" in found["Kaldi's GMMs"][0][1]
    absent = {name for name, checks in found.items() if checks[0][0] == "absent"}
    absent -= {"scoring by NIST"}  # Debian has it beside the PATH
    kinds = {f"extra {extra}" for extra in installed.EXTRAS}
    assert absent == {"decoding by kaldi", "Kaldi's GMMs", *kinds}
    said = "lacking: pip install espeakng-loader kaldi-native-fbank soundfile kaldifst"
    assert found["extra mini"] == [("absent", said)]
    assert {"python", "torch", "native decoder", "recurrence", "disk"} <= found.keys()


@pytest.mark.parametrize(
    ("choice", "state", "says"),
    [
        ("torch", "ok", "torch alone, as BAYES_ASR_KERNELS says"),
        ("portable", "ok", "compiled, portable of portable"),
        ("mmx", "error", "BAYES_ASR_KERNELS is mmx; this machine and installation have torch"),
    ],
)
def test_code_of_recurrences_is_named(
    choice: str, state: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAYES_ASR_KERNELS", choice)
    if choice != "mmx" and not recurrence.LIBRARY.usable:
        pytest.skip("no compiled recurrences")
    (found,) = [check for check in environment.check_environment() if check.name == "recurrence"]
    assert found.state == state
    assert found.message.startswith(says)


@pytest.mark.parametrize("compiler", ["", "c++"])
@pytest.mark.parametrize(("there", "says"), [(False, "is not built"), (True, "does not load: ")])
@pytest.mark.parametrize(
    ("native", "name"),
    [
        (recurrence, "recurrence"),
        (decoder, "native decoder"),
        (lattices, "native lattices"),
        (chain, "native LF-MMI"),
    ],
)
def test_code_that_is_not_compiled_or_not_anew_is_said(
    native: ModuleType,
    name: str,
    there: bool,
    says: str,
    compiler: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = tmp_path / "library.so"
    if there:
        library.touch()
    replaced = replace(native.LIBRARY, file=library)
    monkeypatch.setattr(native, "LIBRARY", replaced)
    rows = [(n, replaced if n == name else one, cost) for n, one, cost in environment.LIBRARIES]
    monkeypatch.setattr(environment, "LIBRARIES", rows)
    monkeypatch.setattr(recurrence, "path", lambda: "torch")
    monkeypatch.setattr(environment.shutil, "which", lambda name: compiler or None)
    (found,) = [check for check in environment.check_environment() if check.name == name]
    assert found.state == "warning"
    assert found.message.startswith(f"{library} {says}")
    remedy = "; install again" if compiler else "; install g++ or clang, then this package again: "
    assert remedy in found.message
    assert ("no C++ compiler is here" in found.message) == (not compiler)
    assert found.message.endswith(" as long"), "what it costs"


@pytest.mark.parametrize(("age", "state"), [(60, "ok"), (-60, "warning")])
def test_library_that_is_older_than_its_sources_is_named(
    age: float, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after `git pull` without another installation."""
    if not decoder.LIBRARY.usable:
        pytest.skip("the C++ decoder is not built")
    library, source = tmp_path / "decoder.so", tmp_path / "csrc" / "search.cpp"
    shutil.copyfile(decoder.LIBRARY.file, library)
    source.parent.mkdir()
    source.touch()
    now = time.time()
    os.utime(library, (now, now + 1e6))  # newer than all that the checkout has
    os.utime(source, (now, now + 1e6 - age))
    rows = [("native decoder", replace(decoder.LIBRARY, file=library), "")]
    monkeypatch.setattr(environment, "LIBRARIES", rows)
    checks = {check.name: check for check in environment.check_environment()}
    assert checks["native decoder"].state == state
    assert (str(source) in checks["native decoder"].message) == (state == "warning")


def test_programs_are_found_below_kaldi_root(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for folder, names in (("src/latbin", PROGRAMS), ("tools/sctk/bin", ("hubscr.pl",))):
        (tmp_path / folder).mkdir(parents=True)
        for name in names:
            (tmp_path / folder / name).write_text("#!/bin/sh\n")
            (tmp_path / folder / name).chmod(0o755)
    monkeypatch.setenv("KALDI_ROOT", str(tmp_path))
    _, found = checks_of(capsys)
    assert found["decoding by kaldi"] == [("ok", "usable")]
    program = tmp_path / "tools" / "sctk" / "bin" / "hubscr.pl"
    assert found["scoring by NIST"] == [("ok", f"usable: {program}")]
    monkeypatch.setenv("decode_cmd", "queue.pl --mem 2G")
    monkeypatch.setenv("BAYES_ASR_DECODER", "fortran")
    _, found = checks_of(capsys)
    assert found["decoding by kaldi"][0][1].startswith("not usable: queue.pl is not below KALDI_")
    assert found["decoding by embedded"][0][1].startswith("not usable: BAYES_ASR_DECODER=fortran")


def test_scripts_for_gmms_are_looked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Those that the shell scripts name, no more and no fewer."""
    sources = [*(ROOT / "local").glob("kaldi*.sh"), *(ROOT / "recipes").glob("*/kaldi.sh")]
    shell = "".join(source.read_text() for source in sources)
    called = re.findall(r"\b(?:steps|utils)/[\w/]+\.sh", shell)
    assert {*called} == {*environment.GMM_SCRIPTS}
    (programs,) = re.findall(r"kaldi_programs=\((.*)\)", shell)
    assert tuple(programs.split()) == environment.GMM_PROGRAMS
    files = [f"egs/wsj/s5/{name}" for name in environment.GMM_SCRIPTS]
    files += [f"src/somebin/{name}" for name in environment.GMM_PROGRAMS]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("KALDI_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "and their programs: there" in checks_of(capsys)[1]["Kaldi's GMMs"][0][1]
    (tmp_path / files[2]).unlink()
    (tmp_path / files[-1]).unlink()
    said = checks_of(capsys)[1]["Kaldi's GMMs"][0][1]
    assert said.startswith("steps/train_mono.sh, fstcompile not found")


def test_real_corpus_is_described(
    kaldi_corpus: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    root = kaldi_corpus("timit_sample")
    recipe = ROOT / "recipes" / "timit" / "config.yaml"
    status, found = checks_of(capsys, recipe, f"--set=data.dir={root}")
    assert status == 0
    # Kaldi's aligner gave up on two of the 80 training utterances.
    warnings = [said for state, said in found["training data"] if state == "warning"]
    assert len(warnings) == 1
    assert "for 2 of 80 utterances" in warnings[0]
    assert ("ok", f"train features: {root / 'data' / 'train'}") in found["training data"]
    assert found["train"][0][1].startswith("78 utterances, ")
    assert "40 dimensions (40 for the network), 152 pdfs" in found["train"][0][1]
    said = "32 utterances, 32 with features, 32 with text, all headers and 10 matrices read"
    assert found["test set"][-1] == ("ok", said)
    assert found["memory"][0][0] == found["disk"][-1][0] == "ok"
    assert re.match(r"about [\d.]+ GiB for \d+ parameters", found["memory"][0][1])
    assert found["graph"][-1][0] == "ok"
    assert "152 pdfs" in found["graph"][-1][1]


@pytest.mark.parametrize(
    ("damage", "part"),
    [
        (no_gzip, "ali.1.gz"),
        (foreign_transition_id, "transition-id 99"),
        (damaged_model, "final.mdl"),
        (missing_ark, "No such file"),
        (empty_scp, "there are no features"),
        (long_alignment, "train1-4 has"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_blocks_training_is_an_error(
    damage: Callable[[Path], None],
    part: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(training_data, "SAMPLE", 12)
    root = write_corpus(tmp_path)
    damage(root)
    status, found = checks_of(capsys, *settings(root))
    assert status == 1
    (error,) = [said for state, said in found["training data"] if state == "error"]
    assert part in error


def test_what_does_not_block_training_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_corpus(tmp_path)
    (root / "data" / "test" / "text").write_text("test0-0 a\n")
    status, found = checks_of(capsys, *settings(root, "data.dev.alignments=[]"))
    assert status == 0
    assert any("are held out" in said for _, said in found["training data"])
    (lacking,) = [said for state, said in found["test set"] if state == "warning"]
    assert lacking.endswith("data/test: 2 of 3 lack text: test0-1, test0-2")
    assert found["graph"][-1][0] == "warning"  # there is none


def test_precision_that_is_computed_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    wanted = settings(write_corpus(tmp_path), "train.precision=bfloat16")
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": True}, raising=False)
    found = checks_of(capsys, *wanted)[1]
    assert found["precision"] == [("ok", "products are computed in bfloat16")]
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict, raising=False)
    monkeypatch.setattr(components, "library", SimpleNamespace(paths=dict))
    ((state, said),) = checks_of(capsys, *wanted)[1]["precision"]
    assert (state, "products are in float32" in said) == ("warning", True)


@pytest.mark.parametrize(
    ("said", "message"),
    [(b"7\n", "a model of 7 pdfs, but .*final.mdl has 6"), (b"\xff\n", "not UTF-8")],
)
def test_graph_of_other_pdfs_is_named(
    said: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_corpus(tmp_path)
    none = np.zeros(0, np.int32)
    weight = none.astype(np.float32)
    graph = Fst(0, np.zeros(1, np.float32), np.zeros(2, np.int64), none, none, weight, none)
    write_fst(graph, root / "HCLG.fst")
    (root / "num_pdfs").write_bytes(said)
    (root / "words.txt").touch()
    _, found = checks_of(capsys, *settings(root, f"data.graph={root}"))
    assert re.search(f"num_pdfs: .*{message}", found["graph"][-1][1])


def test_graph_without_its_grammar_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_corpus(tmp_path)
    write_fst(build_fst([(0, 0, 1, 0.0, 1)], {1: 0.0}), root / "HCL.fst")
    (root / "words.txt").write_text("<eps> 0\na 1\n#0 2\n")
    _, found = checks_of(capsys, *settings(root, f"data.graph={root}"))
    assert f"{root / 'G.fst'}: No such file" in found["graph"][-1][1]


def test_lines_are_printed_and_the_unit_is_checked(
    small_corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["doctor", str(CONF / "base.yaml"), *settings(small_corpus)]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "ok      train: 12 utterances, " in "\n".join(lines)
    assert main([*arguments, "--set=model.unit=gruu"]) == 1
    assert "model.unit is gruu; known units: " in capsys.readouterr().err
    assert main([*arguments, "--set=model.units=[8,8,8]"]) == 1
    printed = capsys.readouterr()
    assert "error   training data: model.units has 3 numbers, but model.layers is " in printed.out
    assert "checks would keep a training from running" in printed.err


def test_estimates_beyond_what_is_free_are_warnings(
    small_corpus: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_data, "_find_free_memory", lambda: 1000)
    monkeypatch.setattr(training_data, "LEAST_FREE", 2**60)
    status, found = checks_of(capsys, *settings(small_corpus))
    assert status == 0
    assert [found[name][-1][0] for name in ("memory", "disk")] == ["warning", "warning"]


def test_the_last_utterance_of_a_set_is_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its header: no matrix but the first is read."""
    monkeypatch.setattr(training_data, "SAMPLE", 1)
    root = write_corpus(tmp_path)
    ark = root / "data" / "test" / "feats.ark"
    ark.write_bytes(ark.read_bytes()[:-1])
    _, found = checks_of(capsys, *settings(root))
    (warning,) = [said for state, said in found["test set"] if state == "warning"]
    assert "test0-2 (24 x 5) needs 480 bytes" in warning
    long_alignment(root)
    status, found = checks_of(capsys, *settings(root))
    assert status == 1
    (error,) = [said for state, said in found["training data"] if state == "error"]
    assert "train1-4 has 15 frames of features, but 16 labels in " in error


def test_programs_are_really_started(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A program that lacks a library ends with status 127."""
    for name in kaldi.PROGRAMS:
        broken = name == "lattice-scale"
        says = "echo libkaldi-lat.so: not found >&2; exit 127" if broken else "exit 1"
        (tmp_path / name).write_text(f"#!/bin/sh\n{says}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("KALDI_ROOT", raising=False)
    monkeypatch.delenv("decode_cmd", raising=False)
    _, found = checks_of(capsys)
    (_, said) = found["decoding by kaldi"][0]
    assert "lattice-scale does not run: status 127, libkaldi-lat.so: not found" in said
