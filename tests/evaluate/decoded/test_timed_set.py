"""`score` with score.glm: lattices to CTMs to counts, natively and by NIST's hubscr."""

import argparse
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from bayes_asr.base import shards
from bayes_asr.base.errors import InputError
from bayes_asr.cli import main
from bayes_asr.cli import score as verb
from bayes_asr.config.decoding_keys import SearchOptions
from bayes_asr.config.merge import load
from bayes_asr.decode.search.search_record import (
    describe_search,
    find_graph_of,
    write_record,
)
from bayes_asr.evaluate.score.scores import read_scores
from bayes_asr.kaldi_io.lattice import CompactLattice
from bayes_asr.kaldi_io.lattice_files import write_lattices
from tests.support.kaldi_jobs import CMD, Jobs

WORDS = {"yes": 1, "no": 2, "um": 3, "cannot": 4, "hello": 5}
SEGMENTS = "u1 r 10.0 11.0\nu2 r 11.0 12.5\nu3 q 0.5 1.5\n"
TEXT = "u1 YES UM NO\nu2 CAN'T\nu3 HELLO\n"
STM = """r-file A ann 10 11 <O,F> YES (INDEED) NO
r-file A ann 11 12.5 CAN'T
q-file B bob 0.5 1.5 HELLO
"""
# By LM weight 1 and 5: what each utterance was heard as.
HEARD = {
    "u1": ("no", "yes no"),
    "u2": ("yes", "cannot"),
    "u3": ("hello hello", "hello"),
}


def word_lattice(low: Sequence[str], high: Sequence[str]) -> CompactLattice:
    """Two paths of 10 frames a word: `low` is best at LM weights below 2, `high` above."""
    arcs: list[tuple[int, int, float, float, int]] = []
    ends, states = [], 1
    for words, graph, acoustic in ((low, 10.0, 0.0), (high, 0.0, 20.0)):
        state = 0
        for number, word in enumerate(words):
            first = (graph, acoustic) if number == 0 else (0.0, 0.0)
            arcs.append((state, WORDS[word], *first, states))
            state, states = states, states + 1
        ends.append(state)
    arcs.sort()
    source, word, graph, acoustic, after = (np.array(column) for column in zip(*arcs, strict=True))
    final = np.where(np.isin(np.arange(states), ends), 0, np.inf).astype(np.float32)
    none = np.zeros(states + 1, np.int64)
    return CompactLattice(
        offsets=np.searchsorted(source, np.arange(states + 1)).astype(np.int64),
        word=word.astype(np.int32),
        graph=graph.astype(np.float32),
        acoustic=acoustic.astype(np.float32),
        nextstate=after.astype(np.int32),
        tid_offsets=10 * np.arange(len(arcs) + 1, dtype=np.int64),
        tids=np.ones(10 * len(arcs), np.int32),
        final_graph=final,
        final_acoustic=final.copy(),
        final_tid_offsets=none,
        final_tids=np.empty(0, np.int32),
    )


def write_decoded(folder: Path, heard: Mapping[str, Sequence[str]]) -> None:
    folder.mkdir(parents=True)
    for lmwt, column in (("1", 0), ("5", 1)):
        lines = (f"{utt} {words[column]}\n" for utt, words in heard.items())
        (folder / f"words.lmwt{lmwt}.wip0.0.txt").write_text("".join(lines))
    lattices = (
        (utt, word_lattice(low.split(), high.split())) for utt, (low, high) in heard.items()
    )
    write_lattices(lattices, folder / "lat.1.gz")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose dev and test are three segments of two recordings."""
    path = tmp_path / "run"
    settings = [f"data.dir={tmp_path}", "data.graph=[graph]", "score.glm=english"]
    load([], settings).save(path / "config.yaml")
    (tmp_path / "graph").mkdir()
    (tmp_path / "graph" / "words.txt").write_text(
        "".join(f"{word} {number}\n" for word, number in {"<eps>": 0, **WORDS}.items())
    )
    for name in ("dev", "test"):
        data = tmp_path / "data" / name
        data.mkdir(parents=True)
        (data / "segments").write_text(SEGMENTS)
        (data / "reco2file_and_channel").write_text("r r-file A\nq q-file B\n")
        (data / "text").write_text(TEXT)
        (data / "stm").write_text(STM)
        write_decoded(path / f"decode_{name}", HEARD)
    return path


def score(*arguments: str | Path) -> None:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    verb.run(parser.parse_args([str(argument) for argument in arguments]))


def test_words_are_counted_in_the_segments_of_recordings(run: Path) -> None:
    score(run, "--scorer", "native")
    assert (run / "ctm_test" / "lmwt5.wip0.0.ctm").read_text() == (
        "q-file B 0.50 0.10 hello 1.00\n"
        "r-file A 10.00 0.10 yes 1.00\n"
        "r-file A 10.10 0.10 no 1.00\n"
        "r-file A 11.00 0.10 cannot 1.00\n"
    )
    (plain,) = read_scores(run / "score_test.json")
    assert (plain.glm, plain.lm_weight, plain.counts.errors) == ("english", 5.0, 0)
    assert [(u.utterance, u.speaker) for u in plain.utterances] == [
        ("bob-000", "bob"),
        ("ann-000", "ann"),
        ("ann-001", "ann"),
    ]
    assert plain.utterances[1].reference == ("yes", "(indeed)", "no")
    keys = (
        "set metric convention lm_weight insertion_penalty errors tokens substitutions "
        "insertions deletions rate utterances"
    )
    (entry,) = json.loads((run / "score_dev.json").read_text())
    assert set(keys.split()) <= entry.keys()


def test_words_are_spelled_by_the_graph_that_decoded(run: Path) -> None:
    for name in ("graph", "other"):
        (run.parent / name).mkdir(exist_ok=True)
        (run.parent / name / "HCLG.fst").write_text(name)
    words = run.parent / "graph" / "words.txt"
    words.rename(run.parent / "other" / "words.txt")
    names = [*WORDS]
    turned = zip(names, [*names[1:], names[0]], strict=True)
    words.write_text("<eps> 0\n" + "".join(f"{new} {WORDS[old]}\n" for old, new in turned))
    for name in ("dev", "test"):
        record = describe_search(run.parent / "other", SearchOptions())
        write_record(record, run / f"decode_{name}")
    score(run, "--scorer", "native")
    (plain,) = read_scores(run / "score_test.json")
    assert (plain.lm_weight, plain.counts.errors) == (5.0, 0)


def test_words_that_a_decoder_wrote_have_no_graph(run: Path) -> None:
    write_record({"network": "0123"}, run / "decode_dev")
    config = load([run / "config.yaml"])
    assert find_graph_of(run / "decode_dev", config) == run.parent / "graph"


def test_a_language_model_that_is_gone_is_named(run: Path) -> None:
    apart = run.parent / "graph" / "HCL.fst"
    apart.write_text("made up")
    (run.parent / "big.arpa").write_text("made up")
    record = describe_search(run.parent / "graph", SearchOptions(), run.parent / "big.arpa")
    write_record(record, run / "decode_dev")
    config = load([run / "config.yaml"])
    assert find_graph_of(run / "decode_dev", config) == run.parent / "graph"
    (run.parent / "big.arpa").unlink()
    with pytest.raises(InputError, match=r"big\.arpa: gone or changed"):
        find_graph_of(run / "decode_dev", config)


@pytest.mark.parametrize("by_time", [True, False])
def test_words_of_what_has_no_frame_are_deletions(
    run: Path, by_time: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Up to data.max_skipped; beyond it, and where features are there, it is an error."""
    rules = "english" if by_time else "null"
    load([run / "config.yaml"], [f"score.glm={rules}", "score.metric=wer"]).save(
        run / "config.yaml"
    )
    shutil.rmtree(run / "decode_test")
    data = run.parent / "data/dev"
    utterances = ("u1", "u2", "u3", "u4")
    (data / "text").write_text(f"{TEXT}u4 NO NO\n")
    (data / "stm").write_text(f"{STM}r-file A ann 30 30.05 NO NO\n")
    (data / "segments").write_text(f"{SEGMENTS}u4 r 30 30.05\n")
    (data / "utt2spk").write_text("".join(f"{utt} ann\n" for utt in utterances))
    (data / "feats.scp").write_text("".join(f"{utt} feats.ark:9\n" for utt in utterances[:3]))
    asked = ["score", str(run), "--scorer=native"] if by_time else ["score", str(run)]
    assert main(asked) == 1
    limit = "more than data.max_skipped = 0.05 allows: mend them, or skip them by --set"
    said = f"no features in {data} for 1 of 4 utterances: u4; {limit} data.max_skipped=0.25"
    assert said in capsys.readouterr().err
    load([run / "config.yaml"], ["data.max_skipped=0.25"]).save(run / "config.yaml")
    assert main(asked) == 0
    assert "for 1 of 4 utterances: u4; they are skipped" in capsys.readouterr().err
    (score,) = read_scores(run / "score_dev.json")
    last = score.utterances[-1]
    assert (last.hypothesis, last.counts.deletions, last.counts.tokens) == ((), 2, 2)
    (data / "feats.scp").write_text("".join(f"{utt} feats.ark:9\n" for utt in utterances))
    assert main(asked) == 1
    assert "1 of 4 utterances of the reference have no hypothesis: u4" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--oracle-lmwt"]])
def test_jobs_score_as_one_process(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    """The same counts, CTMs and lines; a job touches nothing of the run."""
    results: list[dict[str, bytes]] = []
    lines: list[str] = []
    jobs = Jobs()
    monkeypatch.setattr(shards, "run_array", jobs)
    for shared in ([], [f"--cmd={CMD}", "--nj=2"]):
        assert main(["score", str(run), "--scorer=native", *more, *shared]) == 0
        lines.append(capsys.readouterr().out)
        written = [*run.glob("score_*.json"), *run.glob("ctm_*/*")]
        results.append({str(path): path.read_bytes() for path in written})
        for path in written:
            path.unlink()
    assert jobs.calls == [(1, 2)]
    assert results[0] == results[1]
    assert len(results[0]) == (6 if more else 5)
    assert lines[0] == lines[1]


def test_test_is_scored_at_the_weights_of_dev(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(run / "decode_test")
    swapped = {utt: (high, low) for utt, (low, high) in HEARD.items()}
    write_decoded(run / "decode_test", swapped)
    score(run, "--scorer", "native", "--oracle-lmwt")
    lines = [line for line in capsys.readouterr().out.splitlines() if " test " in line]
    assert [(line.split()[1] == "0.00", line.split()[18]) for line in lines] == [
        (False, "5,"),
        (True, "1,"),
    ]
    assert lines[1].endswith(
        "LM weight 1, penalty 0.0, oracle: picked on test itself, not a result"
    )
    assert {path.name for path in (run / "ctm_test").iterdir()} == {
        "lmwt1.wip0.0.ctm",
        "lmwt5.wip0.0.ctm",
    }


def test_ctms_of_earlier_lattices_are_made_anew(run: Path) -> None:
    stale = run / "ctm_dev" / "lmwt5.wip0.0.ctm"
    stale.parent.mkdir()
    stale.write_text("r-file A 0 1 nonsense 1\n")
    score(run, "--scorer", "native")
    assert "nonsense" not in stale.read_text()


def test_without_segments_an_utterance_is_a_recording(run: Path) -> None:
    for name in ("dev", "test"):
        data = run.parent / "data" / name
        (data / "segments").unlink()
        stm = "u1 1 ann 0 1 YES NO\nu2 1 ann 0 1 CAN'T\nu3 1 bob 0 1 HELLO\n"
        (data / "stm").write_text(stm)
    score(run, "--scorer", "native")
    assert [s.counts.errors for s in read_scores(run / "score_test.json")] == [0]


@pytest.mark.slow
def test_hubscr_counts_the_same(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not Path("/usr/lib/sctk/bin/hubscr.pl").exists():
        pytest.skip("hubscr is not installed (Debian package sctk)")
    score(run, "--scorer", "nist")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("] ")[1] for line in lines[1:4:2]] == ["by hubscr.pl, the same"] * 2
    assert (run / "hubscr_dev" / "plain" / "ctm.filt.sys").exists()
    score(run, "--json")
    entry = json.loads(capsys.readouterr().out)[0]
    assert all(entry["hubscr"][key] == entry[key] for key in entry["hubscr"])


@pytest.mark.parametrize("status", [0, 3])
def test_hubscr_that_fails_is_an_error(
    run: Path, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "kaldi" / "tools" / "sctk" / "bin" / "hubscr.pl"
    program.parent.mkdir(parents=True)
    program.write_text(f"print 'no such glm'; exit {status};\n")
    program.chmod(0o755)
    monkeypatch.setenv("KALDI_ROOT", str(tmp_path / "kaldi"))
    with pytest.raises(InputError, match=rf"hubscr.pl failed with status {status}, see .*no such"):
        score(run)


def remove(name: str) -> Callable[[Path], None]:
    return lambda run: (run.parent / name).unlink()


def write(name: str, text: str) -> Callable[[Path], None]:
    def written(run: Path) -> None:
        (run.parent / name).write_text(text)

    return written


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove("data/dev/stm"), "score.glm is set, but none of .* has an stm for dev"),
        (write("data/dev/stm", ";; nothing\n"), "data/dev/stm: holds no segment"),
        (remove("run/decode_dev/lat.1.gz"), "decode_dev: holds no lattices"),
        (write("data/dev/segments", "u1 r 10 11\n"), "u2 was decoded, but segments lacks it"),
        (write("data/dev/segments", "u1 r 10\n"), "segments, line 1: not `utt recording"),
        (write("data/dev/reco2file_and_channel", "r r A\n"), "lacks q, the recording of u3"),
        (write("data/dev/reco2file_and_channel", "r\n"), "line 1: not `recording file channel`"),
        (write("data/dev/reco2file_and_channel", "r r A\nq q B\nr r B\n"), "line 3: r is there a"),
        (write("data/dev/text", f"{TEXT}u4 YES\n"), "wip0.0.txt: 1 of 4 utterances .* u4"),
        (write("graph/words.txt", "<eps> 0\nyes 1\n"), "words.txt: no symbol for word 2"),
    ],
)
def test_what_is_missing_is_named(run: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(run)
    with pytest.raises(InputError, match=message):
        score(run, "--scorer", "native")
    assert not (run / "score_dev.json").exists()


def test_nist_without_rules_and_levenshtein_are_refused(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load([run / "config.yaml"], ["score.glm=null"]).save(run / "config.yaml")
    assert main(["score", str(run), "--scorer", "nist"]) == 1
    assert "set score.glm" in capsys.readouterr().err
    with pytest.raises(InputError, match=r"set score\.costs to sclite"):
        load([], ["score.glm=english", "score.costs=levenshtein"])
