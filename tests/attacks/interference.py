"""A verb that is disturbed at every change that it makes on the disk: killed there, or refused.

usage: python -m tests.attacks.interference [VERB ...]

Each verb writes where other files of its own stand. Each of its changes in turn fails, or is what
it does not live to see: opening a file to write, fsync, rename, link, removal, a new folder; and
files cannot grow beyond a size. Then the files there are all the old ones, or all the new ones, or
become them when somebody reads them; those of a training are of one run. The same command, given
again, ends with the new ones and leaves nothing else. Prints how often each verb was disturbed.
"""

import errno
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import wave
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from bayes_asr.base.files import REPLACED_BY
from bayes_asr.cli import main as run_verb
from bayes_asr.config.merge import load
from bayes_asr.decode.graph.dictionary import write_dictionary
from bayes_asr.kaldi_io.mdl import read_transition_model
from bayes_asr.kaldi_io.side_files import BEST, CONFIG, read_history
from bayes_asr.train.runs import checkpoint, record, state
from tests.attacks.breakages import nothing
from tests.attacks.kill_training import digest
from tests.attacks.laboratory import WHOLE_WAY, bayes_asr, build, copy, inside
from tests.support.small_corpus import SETS, made_up

CHANGES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.truncate"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
LARGEST = (0, 1, 60, 400, 2000)  # bytes that a file may have
LOOK = "decode --loglikes {} --graph {} --model exp/ali/final.mdl --out looked"
DECODE = LOOK.format("run/forward_{}/loglikes.scp", "exp/graph").replace("looked", "out")
GRAPH = (
    "graph --lexicon dict/lexicon.txt --text data/{}/text --model exp/ali/final.mdl"
    " --phones exp/ali/phones.txt --silence sil --out out"
)
HEARD = f"features data/train data/dev data/test\n{WHOLE_WAY}".replace("\\\n", "").replace(
    "train corpus.yaml", "train corpus.yaml --new"
)
RESCORE = "rescore --lattices run/decode_{}/lat.1.gz --graph exp/graph --lmwt 1 2 --out out"
SHIFT, WINDOW = 160, 400  # samples of a frame at 16 kHz
UNLIKE = {state.NAME, "train.log"}  # what is never twice the same
MLP = "train corpus.yaml --out mlp --set model.unit=mlp model.activation=p-sigmoid"
ALIGNED = "train corpus.yaml --set data.train.alignments=out --set train.epochs=1 --out looked"


Seen = dict[str, bytes | str]  # what is in the files of a verb, by their names


def say_other_words(lab: Path) -> None:
    """Change what was said, and with it the errors."""
    for name in ("dev", "test"):
        text = lab / "data" / name / "text"
        text.write_text(text.read_text().replace("a b", "b b", 1))


def score_other_words(lab: Path) -> None:
    """Change what was said, and count."""
    say_other_words(lab)
    assert bayes_asr("score run").status == 0


def write_sounds(lab: Path) -> None:
    """Give each utterance a noise of as many frames as its alignment has."""
    rng = np.random.default_rng(1)
    for name in SETS:
        lines = []
        for utt, ids in made_up(name, SETS[name])[1].items():
            path = lab / "sounds" / f"{utt}.wav"
            path.parent.mkdir(exist_ok=True)
            noise = rng.normal(scale=1000, size=SHIFT * (len(ids) - 1) + WINDOW)
            with wave.open(str(path), "wb") as sound:
                sound.setnchannels(1)
                sound.setsampwidth(2)
                sound.setframerate(16000)
                sound.writeframes(noise.astype("<i2").tobytes())
            lines.append(f"{utt} sounds/{utt}.wav\n")
        (lab / "data" / name / "wav.scp").write_text("".join(lines))


def check_together(lab: Path, now: Seen, old: Seen, new: Seen) -> str:
    """All files are the old ones, or all are the new ones."""
    odd = sorted(n for n in now if now[n] not in (old.get(n), new.get(n)))
    assert now in (old, new), odd
    return "old" if now == old else "new"


def check_run(lab: Path, now: Seen, old: Seen, new: Seen) -> str:
    """Its files are all whole, and of one run; the network is of a complete epoch, or none."""
    run = lab / "out"
    config, best = now.get(CONFIG), now.get(BEST)
    assert best in (None, old[BEST], new[BEST])
    trained = [run / name for name in (*checkpoint.RESUMED, BEST) if name in now]
    if config is None:
        assert not trained, sorted(now)
    else:
        assert config in (old[CONFIG], new[CONFIG])
        units = load([run / CONFIG]).model.units
        for path in trained:
            assert checkpoint.read(path)["architecture"]["layers"][0]["units"] == units, path
    if config != old[CONFIG]:
        assert not list(run.glob("score_*"))
    read_history(run)
    says = any((run / name).exists() for name in (state.NAME, record.HISTORY))
    assert bayes_asr("status out").status == (not says)
    used = bayes_asr("forward out --on dev --out looked")
    assert used.status == (best is None), used.err
    return "no network" if best is None else "new" if best == new[BEST] else "old"


def write_language(lab: Path) -> None:
    """Make the lang folder that GMMs are trained with."""
    lexicon = [("a", ["bah"]), ("b", ["dah"]), ("silence", ["sil"])]
    write_dictionary(lexicon, lab / "words", silence=["sil"])
    assert bayes_asr("gmm lang words lang --oov silence").status == 0


def write_counts(lab: Path) -> None:
    """Counts of the pdfs of the laboratory's model, other than those of training."""
    pdfs = read_transition_model(lab / "exp" / "ali" / "final.mdl").num_pdfs
    (lab / "counts").write_text(f" [ {' '.join(map(str, range(1, pdfs + 1)))} ]\n")


def check_phases(lab: Path, now: Seen, old: Seen, new: Seen) -> str:
    """All files are the old ones, or the new ones, or there is no model yet."""
    return "no model" if "final.mdl" not in now else check_together(lab, now, old, new)


def check_graph(lab: Path, now: Seen, old: Seen, new: Seen) -> str:
    """All files are the old ones, or the new ones, or there is no denominator graph yet."""
    return "no graph" if "den.fst" not in now else check_together(lab, now, old, new)


@dataclass(frozen=True)
class Work:
    """The commands of the old files and of the new ones, what changes between, and a reader.

    begin: what the laboratory lacks for them; folder: where the files lie, which match `names`;
    check: whether what is left goes together; once: the new command refuses to replace what it has
    written.
    """

    old: str
    new: str
    reader: str = ""
    between: Callable[[Path], object] = nothing
    folder: str = "out"
    names: str = "*"
    begin: Callable[[Path], object] = nothing
    check: Callable[[Path, Seen, Seen, Seen], str] = check_together
    once: bool = False


WORKS = {
    "forward": Work(
        "forward run --data data/dev --out out",
        "forward run --data data/test --out out",
        LOOK.format("out/loglikes.scp", "exp/graph"),
    ),
    "decode RUN": Work(
        "decode run --on dev",
        "decode run --on dev --beam 3 --lmwt 2",
        "rescore --lattices run/decode_dev/lat.1.gz --graph exp/graph --lmwt 1 --out looked",
        folder="run/decode_dev",
    ),
    "decode": Work(
        f"{DECODE.format('dev')} --lmwt 1 2",
        f"{DECODE.format('test')} --lmwt 1 3",
        "rescore --lattices out/lat.1.gz --graph exp/graph --lmwt 1 --out looked",
    ),
    "rescore": Work(
        RESCORE.format("dev"),
        f"{RESCORE.format('test')} --mbr --nbest 2",
        "wer --ref data/test/text --hyp out/words.lmwt1.wip0.0.txt",
    ),
    "graph": Work(
        GRAPH.format("train"),
        f"{GRAPH.format('dev')} --silence-prob 0.1",
        LOOK.format("run/forward_test/loglikes.scp", "out"),
    ),
    "align": Work(
        "align run --on dev --lang dict --out out",
        "align run --on train --lang dict --out out",
        ALIGNED,
    ),
    "pronunciation": Work(
        "pronunciation run --on dev --lang dict --out out",
        "pronunciation run --on train --lang dict --out out",
    ),
    "score": Work(
        "score run", "score run", "compare run run", say_other_words, "run", "score_*.json"
    ),
    "report": Work("report run --out out", "report run --out out", "", score_other_words),
    "features": Work(
        "features data/train",
        "features data/train --kind fbank",
        "align --flat --data data/train --lang dict --model exp/ali/final.mdl --out looked",
        folder="data/train",
        begin=write_sounds,
    ),
    "transcribe": Work(
        f"{HEARD}transcribe run sounds/test0-0.wav --ctm out/ctm",
        "transcribe run sounds/test0-1.wav --ctm out/ctm",
        begin=write_sounds,
    ),
    "fold": Work(
        MLP,
        "fold mlp --out out",
        "forward out --on dev --out looked",
        once=True,
    ),
    "adapt": Work(
        MLP,
        "adapt mlp --ali dev=exp/ali_dev --steps 2 --out out",
        "forward out --on dev --out looked",
        once=True,
    ),
    "combine": Work(
        "", "combine run run --out out", "forward out --on dev --out looked", once=True
    ),
    "export --onnx": Work(
        f"{MLP}\nexport mlp --onnx out/net",
        "export mlp --onnx out/net --counts counts",
        begin=write_counts,
    ),
    "gmm chain-tree": Work(
        "gmm mono data/train lang mono --passes 1\ngmm chain-tree data/train lang mono out",
        "gmm chain-tree data/train lang mono out --num-extra-lm-states 1",
        begin=write_language,
        check=check_graph,
    ),
    "gmm mono": Work(
        "gmm mono data/train lang out --passes 1 --gaussians 12",
        "gmm mono data/train lang out --passes 2 --gaussians 14",
        begin=write_language,
        check=check_phases,
    ),
    "gmm align": Work(
        "gmm mono data/train lang mono --passes 1\ngmm align data/train lang mono out",
        "gmm align data/dev lang mono out",
        begin=write_language,
        check=check_phases,
    ),
    "train": Work(
        "train corpus.yaml --set train.epochs=1 --out out",
        "train corpus.yaml --out out",
        check=check_run,
    ),
    "train --new": Work(
        "\n".join(WHOLE_WAY.replace("\\\n", "").replace(" run", " out").splitlines()[1:]),
        "train corpus.yaml --new --set model.units=6 train.epochs=1 --out out",
        check=check_run,
    ),
}


def prepare(work: Work, laboratory: Path, folder: Path) -> None:
    """A copy of the laboratory where the old files stand and the new ones are due."""
    lab = copy(laboratory, folder)
    with inside(lab):
        work.begin(lab)
        for command in work.old.splitlines():
            said = bayes_asr(command)
            assert said.status == 0, said.err
        work.between(lab)


def see(work: Work, lab: Path) -> Seen:
    """What the files of a verb hold, but for times."""
    place = lab / work.folder
    return {
        str(path.relative_to(place)): read(path)
        for path in sorted(place.rglob(work.names))
        if path.is_file()
        and path.name not in UNLIKE
        and not any(p.startswith(".") for p in path.relative_to(place).parts)
    }


def read(path: Path) -> bytes | str:
    """What a file holds; of checkpoints and histories a hash without times, nor of stamps.

    A stamp of run.sh begins with the number of its inode, or has times behind names and sizes.
    """
    if path.suffix == ".sums":
        return path.read_text().partition("\n")[2]
    if path.suffix == ".done":
        return re.sub(r" \d+$", "", path.read_text(), flags=re.M)
    if path.suffix == ".pt":
        return digest(checkpoint.read(path))
    if path.suffix == ".jsonl":
        return digest([json.loads(line) for line in path.read_text().splitlines()])
    return path.read_bytes()


def watch(folder: Path, number: int, meet: Callable[[str], object]) -> list[str]:
    """Call `meet` before the change below `folder` that has this number; returns all so far."""
    changes: list[str] = []
    sync = os.fsync

    def note(what: str, *paths: Any) -> None:
        named = [
            os.path.abspath(os.fsdecode(p)) for p in paths if isinstance(p, str | bytes | Path)
        ]
        if any(name.startswith(str(folder)) for name in named):
            changes.append(what)
            if len(changes) == number + 1:
                meet(what)

    def hear(event: str, given: tuple[Any, ...]) -> None:
        if event in CHANGES or (
            event == "open" and isinstance(given[2], int) and given[2] & WRITES
        ):
            note(event, *given[:2])

    def fsync(file: int) -> None:
        note("fsync", os.readlink(f"/proc/self/fd/{file}"))
        sync(file)

    sys.addaudithook(hear)
    os.fsync = fsync  # type: ignore[assignment]
    return changes


def refuse(what: str) -> NoReturn:
    """As the kernel where the disk is full or fails."""
    code = errno.EIO if what == "fsync" else errno.ENOSPC
    raise OSError(code, os.strerror(code))


def be_killed(_: str) -> None:
    """End as by the kernel or a queue."""
    os.kill(os.getpid(), signal.SIGKILL)


def disturb(
    work: Work, lab: Path, number: int, meet: Callable[[str], object], largest: int | None = None
) -> tuple[int, str, list[str]]:
    """Run the new command in a child; its status, what it said, and the changes that it made."""
    told, said = os.pipe()
    child = os.fork()
    if not child:
        status = 70
        try:
            os.chdir(lab)
            os.dup2(said, 2)
            sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115
            if largest is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
            changes = watch(lab, number, meet)
            status = run_verb(work.new.split())
            os.write(said, f"\0{' '.join(changes)}".encode())
        finally:
            os._exit(status)
    os.close(said)
    with os.fdopen(told, "rb") as pipe:
        everything = pipe.read().decode(errors="replace")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    complaint, _, changes_made = everything.partition("\0")
    return status, complaint, changes_made.split()


def check(work: Work, lab: Path, status: int, said: str, old: Any, new: Any) -> str:
    """What a disturbed command has left; AssertionError where it is not what is promised."""
    assert status in (0, 1, -signal.SIGKILL), f"status {status}: {said}"
    assert "Traceback" not in said, said
    last = (said.splitlines() or [""])[-1]
    assert status != 1 or ": error: " in last, said
    with inside(lab):
        if (lab / work.folder / REPLACED_BY).exists():
            found = "to be finished"
            assert status, said
            if work.reader:
                read = bayes_asr(work.reader)
                assert read.status == 0, read.err
                assert see(work, lab) == new
        else:
            now = see(work, lab)
            found = work.check(lab, now, old, new)
            assert status or now == new
            # What refuses to replace its own leaves nothing, or it would be refused for good.
            assert not (work.once and status == 1 and now), said
        refused = work.once and see(work, lab) == new
        again = bayes_asr(work.new)
        assert again.status == refused, again.err
        assert see(work, lab) == new
        assert not list((lab / work.folder).rglob(".*"))
    return found


def attack(
    verb: str, laboratory: Path, folder: Path, every: int = 1
) -> Iterator[tuple[str, str, str]]:
    """Disturb a verb at one of `every` changes; yields how, at what, and what was found."""
    work = WORKS[verb]
    lab, before = folder / "lab", folder / "before"  # all happens in one place: files name it
    prepare(work, laboratory, lab)
    shutil.copytree(lab, before)
    shutil.rmtree(lab)
    shutil.copytree(before, lab)  # as in each trial, where an index is older than its files
    old = see(work, lab)
    status, said, changes = disturb(work, lab, sys.maxsize, be_killed)
    assert status == 0, said
    new = see(work, lab)
    assert new != old
    trials: list[tuple[str, int, Callable[[str], object], int | None]] = [
        (how, number, meet, None)
        for offset, (how, meet) in enumerate((("killed", be_killed), ("refused", refuse)))
        for number in range(offset * every // 2, len(changes), every)
    ]
    trials += [(f"files of {size} bytes", sys.maxsize, refuse, size) for size in LARGEST]
    for how, number, meet, largest in trials:
        shutil.rmtree(lab)
        shutil.copytree(before, lab)
        status, said, _ = disturb(work, lab, number, meet, largest)
        what = "" if largest is not None else f"{changes[number]} {number} of {len(changes)}"
        try:
            yield how, what, check(work, lab, status, said, old, new)
        except AssertionError as error:
            raise AssertionError(f"{verb}, {how} {what}: {error}") from error


def main() -> None:
    """Disturb the verbs that are named, or all."""
    with tempfile.TemporaryDirectory() as folder:
        laboratory = build(Path(folder) / "laboratory")
        for verb in sys.argv[1:] or WORKS:
            found = [left for _, _, left in attack(verb, laboratory, Path(folder) / verb)]
            counts = {left: found.count(left) for left in sorted(set(found))}
            print(f"{verb}: disturbed {len(found)} times, left: {counts}", flush=True)


if __name__ == "__main__":
    main()
