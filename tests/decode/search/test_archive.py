"""Decoding an archive: every utterance appears, each fault is named, nothing is half done."""

import errno
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from bayes_asr.base import progress
from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.config.decoding_keys import KALDI_DEFAULTS, UNLIMITED, SearchOptions
from bayes_asr.decode.graph.ngram import estimate_witten_bell, write_arpa
from bayes_asr.decode.keywords import open_index
from bayes_asr.decode.lattices.paths import pair_weights
from bayes_asr.decode.lattices.rescore import RescoreOptions, rescore_lattices, write_ctm_at
from bayes_asr.decode.lmrescore import replace_lm_in
from bayes_asr.decode.search import archive, embedded_decoder
from bayes_asr.decode.search.archive import decode_archive
from bayes_asr.decode.search.job import DecodeJob, DecodeSummary
from bayes_asr.decode.search.loglikes import count_listed
from bayes_asr.kaldi_io.ark import write_matrices
from bayes_asr.kaldi_io.fst import read_fst, write_fst
from bayes_asr.kaldi_io.lattice_files import iter_lattices
from bayes_asr.kaldi_io.text import read_text
from tests.support.decode_cases import write_small_graph
from tests.support.training_runs import Killed

OPTIONS = SearchOptions(0.5, 20.0, UNLIMITED, lattice_beam=10.0)


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    return write_small_graph(tmp_path / "graph")


def loglikes(frames: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(frames, 3)).astype(np.float32)


def decode(
    graph: Path,
    items: dict[str, np.ndarray],
    lmwts: Sequence[float] = (),
    wips: Sequence[float] = (0.0,),
    nj: int = 1,
) -> DecodeSummary:
    """Decode with the small graph into `graph`/../out."""
    write_unchecked(items, graph.parent / "loglikes.ark")
    return decode_archive(job_of(graph, lmwts, wips, nj), graph.parent / "out")


def job_of(
    graph: Path, lmwts: Sequence[float] = (), wips: Sequence[float] = (0.0,), nj: int = 1
) -> DecodeJob:
    source, grid = str(graph.parent / "loglikes.ark"), tuple(pair_weights(lmwts, wips))
    return DecodeJob(source, graph, graph / "final.mdl", OPTIONS, grid, nj)


def write_unchecked(items: dict[str, np.ndarray], path: Path) -> None:
    """Write matrices as Kaldi does, NaN and emptiness included."""
    with path.open("wb") as file:
        for utt, matrix in items.items():
            rows, columns = matrix.shape
            size = b"\4" + np.int32(rows).tobytes() + b"\4" + np.int32(columns).tobytes()
            file.write(utt.encode() + b" \0BFM " + size + matrix.astype("<f4").tobytes())


def test_every_file_holds_every_utterance_in_order(graph: Path) -> None:
    items = {name: loglikes(5, seed) for seed, name in enumerate(["zz", "a", "m"])}
    items["short"] = loglikes(1)  # the graph needs two frames
    summary = decode(graph, items, lmwts=[1.0, 2.5], wips=[0.0, 0.5])
    out = graph.parent / "out"
    assert sorted(path.name for path in out.iterdir()) == [
        "costs.txt",
        "lat.1.gz",
        *(f"words.lmwt{w}.wip{p}.txt" for w in ("1", "2.5") for p in ("0.0", "0.5")),
        "words.txt",
    ]
    for path in out.glob("*.txt"):
        assert list(read_text(path)) == list(items), path.name
    for path in out.glob("words*.txt"):
        assert read_text(path)["zz"] == ["yes", "no"]
        assert read_text(path)["short"] == []
    assert read_text(out / "costs.txt")["short"] == ["inf", "inf"]
    assert [utt for utt, _ in iter_lattices(out / "lat.1.gz")] == ["zz", "a", "m"]
    assert (summary.utterances, summary.frames) == (4, 16)
    assert (summary.empty, summary.partial, summary.failed) == (["short"], [], [])


def test_archive_with_an_index_beside_it_has_a_length(tmp_path: Path) -> None:
    """The bar of decode, which reads the archive of forward."""
    ark, scp = tmp_path / "loglikes.ark", tmp_path / "loglikes.scp"
    write_matrices([(name, np.zeros((2, 3))) for name in "abc"], ark, scp)
    assert [count_listed(name) for name in (str(ark), f"ark:{ark}", str(scp))] == [3, 3, 3]
    scp.unlink()
    assert count_listed(str(ark)) is None


class Watched(progress.Progress):
    """Progress that remembers its total and what was done at the end."""

    seen: ClassVar[list[tuple[int | None, int]]] = []

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.seen.append((self.total, self.done))


def test_readers_of_lattices_know_how_many_there_are(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the costs beside them, where an utterance without a path has none."""
    items = {name: loglikes(5, seed) for seed, name in enumerate("abc")}
    decode(graph, {**items, "short": loglikes(1)})
    out, words, arpa = graph.parent / "out", graph / "words.txt", tmp_path / "lm.arpa"
    lattices = [out / "lat.1.gz"]
    write_arpa(estimate_witten_bell([["yes", "no"]], 1, ["yes", "no"]), arpa)

    def read_all() -> list[tuple[int | None, int]]:
        monkeypatch.setattr(Watched, "seen", [])
        rescore_lattices(lattices, words, tmp_path / "rescored", RescoreOptions(((1.0, 0.0),)))
        write_ctm_at((1.0, 0.0), lattices, words, tmp_path / "ctm")
        replace_lm_in(lattices, words, arpa, arpa, tmp_path / "lm")
        open_index(tmp_path, lattices, (1.0, 0.0))
        (tmp_path / "keywords.npz").unlink()
        return Watched.seen

    monkeypatch.setattr(progress, "Progress", Watched)
    assert read_all() == [(3, 3)] * 4
    (out / "costs.txt").unlink()
    assert read_all() == [(None, 3)] * 4


def test_partial_words_are_counted_and_named(graph: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = graph.parent / "loglikes.ark"
    write_matrices([("short", loglikes(1))], source)
    options = replace(KALDI_DEFAULTS, acoustic_scale=0.5, allow_partial=True)
    summary = decode_archive(replace(job_of(graph), options=options), graph.parent / "out")
    assert summary.partial == ["short"]
    assert "short: no path reached a final state; partial words" in caplog.text
    assert read_text(graph.parent / "out" / "words.txt") == {"short": ["yes"]}


def command(graph: Path) -> list[str]:
    """The command line of `decode`."""
    files = {"loglikes": "loglikes.ark", "graph": "graph", "model": "graph/final.mdl", "out": "out"}
    return ["decode", *(f"--{option}={graph.parent / name}" for option, name in files.items())]


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_ended_call_goes_on(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its utterances are not decoded again, but where an input or an option is another one."""
    decode_one, decoded, end = embedded_decoder.decode_one, list[str](), 3

    def count_decoded(*arguments: Any) -> Any:
        if len(decoded) == end:
            raise Killed
        decoded.append(arguments[3])
        return decode_one(*arguments)

    source, out = graph.parent / "loglikes.ark", graph.parent / "out"
    words = [*command(graph), "--lmwt", "1", "2"]
    items = {name: loglikes(5, seed) for seed, name in enumerate("abcde")}
    write_unchecked(items, source)
    assert main(words) == 0
    whole = files_of(out)
    shutil.rmtree(out)
    monkeypatch.setattr(embedded_decoder, "decode_one", count_decoded)
    with pytest.raises(Killed):
        main(words)
    end = -1
    assert main(words) == 0
    assert decoded == list("abcde")
    assert files_of(out) == whole
    end = len(decoded) + 3
    with pytest.raises(Killed):
        main(words)
    assert files_of(out).items() > whole.items(), "the earlier results stay"
    write_unchecked({**items, "a": loglikes(6)}, source)
    end = -1
    assert main(words) == 0
    assert decoded == list("abcdeabcabcde")
    assert files_of(out).keys() == whole.keys()


def test_an_utterance_for_which_memory_was_short_is_tried_again(
    graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode_one, short = embedded_decoder.decode_utterance, [True]

    def decode_where_there_is_room(*arguments: Any) -> Any:
        if arguments[1] == "b" and short:
            short.clear()
            raise MemoryError("short")
        if arguments[1] == "c" and not whole:
            raise Killed
        return decode_one(*arguments)

    source, out, whole = graph.parent / "loglikes.ark", graph.parent / "out", list[bool]()
    words = command(graph)
    write_unchecked({name: loglikes(5, seed) for seed, name in enumerate("abc")}, source)
    monkeypatch.setattr(embedded_decoder, "decode_utterance", decode_where_there_is_room)
    with pytest.raises(Killed):
        main(words)
    whole.append(True)
    assert main(words) == 0
    assert all(read_text(out / "words.txt").values())


@pytest.mark.slow
def test_processes_go_on_with_what_one_has_decoded(
    graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = graph.parent / "loglikes.ark", graph.parent / "out"
    words = command(graph)
    write_unchecked({name: loglikes(5, seed) for seed, name in enumerate("abcdefg")}, source)
    assert main(words) == 0
    whole = files_of(out)
    shutil.rmtree(out)
    with monkeypatch.context() as patch:
        patch.setattr(archive, "count", fail_at_third())
        with pytest.raises(Killed):
            main(words)
    assert main([*words, "--nj", "2"]) == 0
    assert files_of(out) == whole


def fail_at_third() -> Callable[[DecodeSummary, object], None]:
    """What counts decoded utterances, and ends the call at the third."""
    calls = iter([None, None])

    def count(*_: object) -> None:
        if next(calls, 0) == 0:
            raise Killed

    return count


@pytest.mark.slow
@pytest.mark.parametrize("nj", [1, 2])
def test_bad_utterance_is_named_and_the_others_are_decoded(graph: Path, nj: int) -> None:
    bad = loglikes(4)
    bad[2, 1] = np.nan
    items = {"good": loglikes(5), "bad": bad, "wide": np.zeros((3, 4)), "last": loglikes(6)}
    source = re.escape(str(graph.parent / "loglikes.ark"))
    message = (
        f"2 of 4 utterances failed: {source}: bad: log-likelihood nan at frame 2, pdf 1; .*"
        rf"{source}: wide: log-likelihoods of shape \[3, 4\], but the model has 3 pdfs"
    )
    with pytest.raises(InputError, match=message):
        decode(graph, items, lmwts=[1.0], nj=nj)
    for name in ("words.txt", "words.lmwt1.wip0.0.txt"):
        words = read_text(graph.parent / "out" / name)
        assert words == {"good": ["yes", "no"], "bad": [], "wide": [], "last": ["yes", "no"]}


def test_damaged_entry_of_an_scp_stands_alone(graph: Path) -> None:
    good, cut = graph.parent / "good.ark", graph.parent / "cut.ark"
    write_unchecked({"one": loglikes(5)}, good)
    cut.write_bytes(good.read_bytes()[:-8])
    scp = graph.parent / "loglikes.scp"
    scp.write_text(f"a {good}:4\nb {cut}:4\nc gone.ark:4\nd {good}:4\n")
    out = graph.parent / "out"
    with pytest.raises(InputError, match=r"cut\.ark.* b .*; .*gone\.ark"):
        decode_archive(replace(job_of(graph), loglikes=str(scp)), out)
    words = read_text(out / "words.txt")
    assert words == {"a": ["yes", "no"], "b": [], "c": [], "d": ["yes", "no"]}


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
def test_a_disk_that_fails_is_no_fault_of_an_utterance(
    number: int, graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = graph.parent / "good.ark", graph.parent / "bad.ark"
    write_unchecked({"one": loglikes(5)}, good)
    scp = graph.parent / "loglikes.scp"
    scp.write_text(f"a {good}:4\nb {bad}:4\n")
    plain = open

    def failing(name: str | Path, *options: object, **more: object) -> object:
        if str(name) == str(bad):
            raise OSError(number, os.strerror(number), str(name))
        return plain(name, *options, **more)

    monkeypatch.setattr("builtins.open", failing)
    with pytest.raises(OSError, match=os.strerror(number)) as failed:
        decode_archive(replace(job_of(graph), loglikes=str(scp)), graph.parent / "out")
    assert failed.value.filename == str(bad)
    assert not (graph.parent / "out/words.txt").exists()


def test_truncated_archive_leaves_earlier_results(graph: Path) -> None:
    decode(graph, {"one": loglikes(5), "two": loglikes(6)}, lmwts=[1.0])
    out = graph.parent / "out"
    before = files_of(out)
    source = graph.parent / "loglikes.ark"
    source.write_bytes(source.read_bytes()[:-5])
    with pytest.raises(InputError, match=r"loglikes\.ark: two.* needs \d+ bytes .* has \d+"):
        decode_archive(job_of(graph), out)
    assert files_of(out) == before


def test_later_decoding_takes_the_place_of_an_earlier_one(graph: Path) -> None:
    decode(graph, {"one": loglikes(5)}, lmwts=[1.0, 2.0])
    out = graph.parent / "out"
    (out / "lat.2.gz").write_bytes(b"")
    decode(graph, {"two": loglikes(5)}, lmwts=[2.0])
    names = {path.name for path in out.iterdir()}
    assert names == {"costs.txt", "lat.1.gz", "words.lmwt2.wip0.0.txt", "words.txt"}


def test_nothing_is_decoded_with_a_wrong_model(graph: Path) -> None:
    with pytest.raises(InputError, match=r"u has 4 columns, the model 3 pdfs"):
        decode(graph, {"u": np.zeros((3, 4))})
    with pytest.raises(InputError, match="holds no utterance"):
        decode(graph, {})
    fst = graph / "HCLG.fst"
    read = read_fst(fst)
    write_fst(type(read)(**{**vars(read), "ilabel": read.ilabel + 90}), fst)
    with pytest.raises(InputError, match=r"HCLG\.fst: ilabel 94 is past the 6 transition-ids"):
        decode(graph, {"u": loglikes(3)})
    assert not list((graph.parent / "out").iterdir())


def test_word_that_has_no_symbol_is_named(graph: Path) -> None:
    (graph / "words.txt").write_text("<eps> 0\nyes 1\n")
    with pytest.raises(InputError, match=r"HCLG\.fst: word 2 is not in the words\.txt of 2"):
        decode(graph, {"u": loglikes(3)})


@pytest.mark.slow
def test_death_of_a_worker_names_the_utterance(
    graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for how, said in ((die, "died with status 3"), (be_killed, r"was killed \(status -9\), as")):
        monkeypatch.setattr(embedded_decoder, "decode_elsewhere", how)
        with pytest.raises(InputError, match=f"u: a worker process {said}"):
            decode(graph, {"u": loglikes(3)}, nj=2)


def die(*_: object) -> None:
    os._exit(3)


def be_killed(*_: object) -> None:
    """End as the kernel ends a process where memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_workers_import_nothing_of_the_working_directory(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("yaml", "pickle", "socket"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    decode(graph, {"u": loglikes(3), "v": loglikes(4)}, nj=2)
    assert not (tmp_path / "executed").exists()
    assert "PYTHONSAFEPATH" not in os.environ


def test_lack_of_memory_fails_one_utterance(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def starved(*_: object) -> None:
        raise MemoryError("the search for a lattice ran out of memory")

    monkeypatch.setattr(embedded_decoder, "decode_utterance", starved)
    with pytest.raises(InputError, match="u: the search for a lattice ran out of memory"):
        decode(graph, {"u": loglikes(3)})
    assert read_text(graph.parent / "out" / "words.txt") == {"u": []}


def test_a_lattice_too_large_for_least_expected_errors_has_its_best_path(
    graph: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_unchecked({"large": loglikes(9)}, graph.parent / "loglikes.ark")
    job = replace(job_of(graph, (2.0, 10.0)), mbr=True)
    decode_archive(replace(job, mbr=False), graph / "best")
    monkeypatch.setattr("bayes_asr.decode.lattices.mbr.MOST_BYTES", 1)
    decode_archive(job, graph / "least")
    assert "large: confidences of" in caplog.text
    for name in ("words.lmwt2.wip0.0.txt", "words.lmwt10.wip0.0.txt", "lat.1.gz", "costs.txt"):
        assert (graph / "least" / name).read_bytes() == (graph / "best" / name).read_bytes()


def test_command_line(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = graph.parent / "loglikes.ark"
    write_matrices([("u", loglikes(5))], source)
    command = ["decode", "--loglikes", source, "--graph", graph, "--model", graph / "final.mdl"]
    command += ["--out", graph.parent / "out", "--acoustic-scale", "0.5", "--lmwt", "1", "2"]
    assert main([*map(str, command), "--wip", "0.5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["utterances"] == 1
    assert (graph.parent / "out" / "words.lmwt2.wip0.5.txt").exists()
    assert main([*map(str, command), "--min-active=9", "--max-active=8"]) == 1
    assert "decode: min_active is 9, more than max_active, 8" in capsys.readouterr().err
