"""The runs of a study in one file, to go on with it on another machine, or to test what it says.

    python benchmarks/archive.py pack OUT FILE.tar.xz
    python benchmarks/archive.py unpack FILE.tar.xz OUT --data DIR

It holds what tables and tests of benchmarks/study.py are made of. It has neither networks nor words
of the corpus: the words of a reference are numbered, a recognised word has the number of the one
that it is aligned with where it is right, so that alignments and counts stay. DIR is the data.dir
of the runs to come; study.py refuses other frames than those of the runs that are there. To test
later runs with unpacked ones, pack all together and unpack them into another folder.
"""

import argparse
import json
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from study import LAST_STEP, dev_error

from bayes_asr.base.errors import InputError
from bayes_asr.base.files import replacing
from bayes_asr.evaluate.score.scores import Score, UtteranceScore, read_scores, write_scores
from bayes_asr.kaldi_io.side_files import CONFIG, ENVIRONMENT, HISTORY
from bayes_asr.train.runs import state
from bayes_asr.train.runs.configuration import read_configuration

RUNS = "*/*/seed*"  # below the folder of a study
SCORES = "score_*.json"  # in that of a run
PLACE = "{DIR}"  # stands for data.dir
WRONG = "x"


def pack(out: Path, file: Path) -> int:
    """Write the complete runs of a study to a file; returns their number."""
    runs = [run for run in sorted(out.glob(RUNS)) if run.is_dir() and dev_error(run) is not None]
    if not runs:
        raise InputError(f"{out}: no run of a study is complete here")
    with (
        TemporaryDirectory() as folder,
        replacing(file) as temporary,
        tarfile.open(temporary, "w:xz") as archive,
    ):
        for run in runs:
            copy = Path(folder) / run.relative_to(out)
            copy.mkdir(parents=True)
            copy_record(run, copy)
            archive.add(copy, str(run.relative_to(out)), filter=forget_owner)
    return len(runs)


def copy_record(run: Path, copy: Path) -> None:
    """Copy what tables are made of; nothing of it tells where the run and its data were."""
    config = read_configuration(run)
    data_dir = config.data.dir
    replace(config, data=replace(config.data, dir=PLACE)).save(copy / CONFIG)
    told = {key: x for key, x in state.read(run).items() if key in ("state", "why")}
    (copy / state.NAME).write_text(json.dumps(told) + "\n")
    for name in (HISTORY, ENVIRONMENT):
        copy_text(run / name, copy / name, data_dir, PLACE)
    if (run / LAST_STEP).exists():
        measured = json.loads((run / LAST_STEP).read_text())
        (copy / LAST_STEP).write_text(json.dumps({**measured, "run": run.name}) + "\n")
    for file in run.glob(SCORES):
        write_scores([number_words(score) for score in read_scores(file)], copy / file.name)
        copy_text(copy / file.name, copy / file.name, data_dir, PLACE)


def copy_text(source: Path, target: Path, old: str, new: str) -> None:
    """Copy a file of JSON, with another name of a folder in its texts."""
    text = source.read_text(encoding="utf-8")
    for name in (old, json.dumps(old)[1:-1]):  # as it is, or with the letters beyond ASCII escaped
        text = text.replace(name, json.dumps(new)[1:-1])
    target.write_text(text, encoding="utf-8")


def number_words(score: Score) -> Score:
    """A score with the same alignments, whose reference words are numbers.

    Words that are right, and no others, are the same on both sides, as in the alignment; all other
    ways to align cost as much as before or more, so that ties, too, end as before.
    """
    if score.glm or score.unknown is not None:
        raise InputError(f"{score.convention}: words by rules or unknown ones cannot be numbered")
    utterances = [number_utterance(score, utterance) for utterance in score.utterances]
    return replace(score, utterances=utterances)


def number_utterance(score: Score, utterance: UtteranceScore) -> UtteranceScore:
    """An utterance of `number_words`; words that may be missing stay, as they are told by name."""
    reference: list[str] = []
    hypothesis: list[str] = []
    for edit in score.alignment(utterance):
        if edit.ref is not None:
            optional = edit.ref in score.optional
            reference.append(edit.ref if optional else str(len(reference) + 1))
        if edit.hyp is not None:
            hypothesis.append(reference[-1] if edit.kind == "correct" else WRONG)
    return replace(utterance, reference=tuple(reference), hypothesis=tuple(hypothesis))


def forget_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A member of the archive that depends on its content alone."""
    member.mtime = member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def unpack(file: Path, out: Path, data: Path) -> int:
    """Add the runs of a file to those of a study, whose own stay; returns how many were added."""
    out.mkdir(parents=True, exist_ok=True)
    added = 0
    with TemporaryDirectory(dir=out) as folder, tarfile.open(file) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # since Python 3.11.4
        archive.extractall(folder)  # noqa: S202 - by this filter
        for run in sorted(Path(folder).glob(RUNS)):
            target = out / run.relative_to(folder)
            if not target.exists():
                place_record(run, str(data.absolute()))
                target.parent.mkdir(parents=True, exist_ok=True)
                run.rename(target)
                added += 1
    return added


def place_record(run: Path, data_dir: str) -> None:
    """Say in the record of a run where its data are."""
    config = read_configuration(run)
    replace(config, data=replace(config.data, dir=data_dir)).save(run / CONFIG)
    for file in (run / ENVIRONMENT, *run.glob(SCORES)):
        copy_text(file, file, PLACE, data_dir)


def main(words: Sequence[str] | None = None) -> None:
    """Pack or unpack, and say how many runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    packing = verbs.add_parser("pack", help="write the complete runs of a study to a file")
    packing.add_argument("out", type=Path, help="folder of the runs")
    packing.add_argument("file", type=Path, help="what to write, FILE.tar.xz")
    unpacking = verbs.add_parser("unpack", help="add the runs of a file to a folder")
    unpacking.add_argument("file", type=Path, help="what `pack` has written")
    unpacking.add_argument("out", type=Path, help="folder of the runs")
    unpacking.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="data.dir of the runs to come"
    )
    args = parser.parse_args(words)
    try:
        if args.verb == "pack":
            print(f"{args.file}: {pack(args.out, args.file)} runs")
        else:
            print(f"{args.out}: {unpack(args.file, args.out, args.data)} runs added")
    except tarfile.TarError as error:
        raise SystemExit(f"archive.py: {args.file}: not what `pack` writes, or cut off") from error
    except (InputError, OSError) as error:
        raise SystemExit(f"archive.py: {error}") from error


if __name__ == "__main__":
    main()
