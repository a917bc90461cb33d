"""Rescoring lattices writes the files that Kaldi's lattice programs write."""

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.cli import rescore
from bayes_asr.config.decoding_keys import UNLIMITED, SearchOptions
from bayes_asr.decode.lattices.rescore import RescoreOptions, rescore_lattices
from bayes_asr.decode.search.archive import decode_archive
from bayes_asr.decode.search.job import DecodeJob
from bayes_asr.decode.search.utterance import ENGINES
from bayes_asr.kaldi_io.lattice_files import write_lattices
from bayes_asr.kaldi_io.text import read_text
from tests.decode.lattices.test_mbr import word_lattice
from tests.support.decode_cases import CASES, Golden, golden_case, random_network


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def golden(request: pytest.FixtureRequest, kaldi_corpus: Callable[[str], Path]) -> Golden:
    return golden_case(kaldi_corpus, *request.param)


@pytest.fixture(scope="module")
def decoded(golden: Golden, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("decoded")
    job = DecodeJob(str(golden.loglikes), golden.graph, golden.model, golden.options("a"))
    decode_archive(job, out)
    return out


def run(*arguments: object) -> None:
    parser = argparse.ArgumentParser()
    rescore.add_arguments(parser)
    rescore.run(parser.parse_args([str(argument) for argument in arguments]))


@pytest.mark.slow
def test_lattices_of_a_job_that_are_missing_are_named(
    golden: Golden, decoded: Path, tmp_path: Path
) -> None:
    """Unless some are chosen of those that are there."""
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "num_jobs").write_text("3\n")
    for job in (1, 2):
        shutil.copy(decoded / "lat.1.gz", jobs / f"lat.{job}.gz")
    given = ("--graph", golden.graph, "--out", tmp_path / "out", "--lmwt", 1)
    with pytest.raises(InputError, match=r"jobs: lat.3.gz is missing: num_jobs says 3, but only 2"):
        run("--lattices", *sorted(jobs.glob("lat.*.gz")), *given)
    run("--lattices", jobs / "lat.1.gz", *given)
    assert (tmp_path / "out/words.lmwt1.wip0.0.txt").exists()


@pytest.mark.slow
@pytest.mark.parametrize("nj", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_files_are_kaldis(golden: Golden, decoded: Path, nj: int, tmp_path: Path) -> None:
    (ctm,) = golden.folder.glob("a.ctm.lmwt*")
    lmwt = ctm.name[len("a.ctm.lmwt") :]
    given = ("--lattices", decoded / "lat.1.gz", "--graph", golden.graph, "--out", tmp_path)
    run(*given, "--lmwt", lmwt, "--wip", 0, 1, "--nbest", 10, "--mbr", "--nj", nj)
    name = f"lmwt{lmwt}.wip0.0"
    for wip in ("0.0", "1.0"):
        ours = read_text(tmp_path / f"words.lmwt{lmwt}.wip{wip}.txt")
        assert ours == golden.words(f"a.words.lmwt{lmwt}.wip{wip}")
    assert read_text(tmp_path / f"nbest.{name}.txt") == golden.words(f"a.nbest10.lmwt{lmwt}")
    assert read_text(tmp_path / f"mbr.{name}.txt") == golden.words(f"a.mbr.lmwt{lmwt}")
    risks = {
        utt: float(row[0]) for utt, row in read_text(tmp_path / f"mbr_risk.{name}.txt").items()
    }
    assert risks == pytest.approx(golden.numbers(f"a.mbr_risk.lmwt{lmwt}"), rel=1e-4, abs=1e-4)
    theirs = [line.split() for line in ctm.read_text().splitlines()]
    ours = [line.split() for line in (tmp_path / f"ctm.{name}").read_text().splitlines()]
    assert [(row[0], row[1], row[4]) for row in ours] == [(r[0], r[1], r[4]) for r in theirs]
    assert np.mean([a != b for a, b in zip(ours, theirs, strict=True)]) < 0.01


def test_state_level_lattices_are_refused(tmp_path: Path) -> None:
    options = SearchOptions(1.0, 16.0, UNLIMITED, lattice_beam=2.0, allow_partial=True)
    loglikes = np.random.default_rng(0).normal(size=(9, 8)).astype(np.float32)
    lattice, _ = ENGINES["numpy"].search(random_network(0), loglikes, options)
    assert lattice is not None
    write_lattices([("u", lattice)], tmp_path / "lat.1.gz")
    (tmp_path / "words.txt").write_text("<eps> 0\n")
    given = ([tmp_path / "lat.1.gz"], tmp_path / "words.txt", tmp_path)
    with pytest.raises(InputError, match=r"lat\.1\.gz: u is a state-level lattice"):
        rescore_lattices(*given, RescoreOptions(((1.0, 0.0),)))


def test_an_utterance_of_two_archives_is_refused(tmp_path: Path) -> None:
    """Its words would be written twice."""
    lattices = [tmp_path / "lat.1.gz", tmp_path / "lat.2.gz"]
    write_lattices([("u", word_lattice(0)), ("v", word_lattice(1))], lattices[0])
    write_lattices([("v", word_lattice(1))], lattices[1])
    (tmp_path / "words.txt").write_text("".join(f"w{i} {i}\n" for i in range(20)))
    out, options = tmp_path / "out", RescoreOptions(((1.0, 0.0),))
    with pytest.raises(InputError, match=r"lat\.2\.gz: v is there a second time"):
        rescore_lattices(lattices, tmp_path / "words.txt", out, options)
    assert not out.exists()
    assert rescore_lattices(lattices[:1], tmp_path / "words.txt", out, options) == 2


def test_archive_without_lattices_is_refused(tmp_path: Path) -> None:
    write_lattices([], tmp_path / "lat.1.gz")
    (tmp_path / "words.txt").write_text("<eps> 0\n")
    with pytest.raises(InputError, match=r"lat\.1\.gz: (hold no lattice|is empty)"):
        rescore_lattices(
            [tmp_path / "lat.1.gz"],
            tmp_path / "words.txt",
            tmp_path,
            RescoreOptions(((1.0, 0.0),)),
        )
