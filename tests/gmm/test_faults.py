"""GMM steps on data that is broken, incomplete, or not what it was: named, and nothing is lost."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from bayes_asr.base.errors import InputError
from bayes_asr.base.installed import SCRIPT
from bayes_asr.base.processes.pool import map_serially
from bayes_asr.cli import main
from bayes_asr.gmm.alignment import ALIGN_SI
from bayes_asr.gmm.features import read_transforms, write_fmllr
from bayes_asr.gmm.realignment import Realignment
from bayes_asr.gmm.resumable import StepFolders
from bayes_asr.gmm.schedule import DELTAS, LDA_MLLT, MONOPHONES, SAT, TrainingSchedule
from bayes_asr.gmm.trainers import GmmTrainer
from bayes_asr.kaldi_io.ark import iter_int_vectors, iter_matrices, write_matrices
from bayes_asr.kaldi_io.integers import write_int_vectors
from bayes_asr.kaldi_io.text import read_mapping
from tests.attacks.laboratory import contents
from tests.support.archives import one_line, put_empty_first
from tests.support.golden_data import find_lang, keep_lines, lay_out, write_few

SHORT: dict[str, Any] = {"passes": 1, "growing": 1, "realign": (), "gaussians": 150}
AFTER = [(DELTAS, "mono_ali"), (LDA_MLLT, "tri1_ali"), (SAT, "tri2_ali")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four utterances, and monophones of them."""
    folder = tmp_path_factory.mktemp("whole")
    write_few(folder / "data", every=20)
    train(folder)
    return folder


@pytest.fixture
def lab(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of them that may be broken; messages name files by relative paths."""
    shutil.copytree(whole, tmp_path / "lab")
    monkeypatch.chdir(tmp_path / "lab")
    for table in Path("data").glob("*.scp"):
        table.write_text(table.read_text().replace(f"{whole}/", ""))
    return Path()


def train(
    lab: Path, schedule: TrainingSchedule = MONOPHONES, before: str = "", out: str = "mono"
) -> GmmTrainer:
    """Train one pass."""
    source = lab / before if before else None
    folders = StepFolders(lab / "data", find_lang(), source, lab / out)
    training = GmmTrainer(replace(schedule, **SHORT), folders, map_serially)
    training.run()
    return training


def align(lab: Path, out: str = "ali", **options: Any) -> None:
    folders = StepFolders(lab / "data", find_lang(), lab / "mono", lab / out)
    Realignment(folders, map_serially, ALIGN_SI, **options).run()


def first_utterance() -> str:
    return Path("data/feats.scp").read_text().split()[0]


def without_line(table: str) -> str:
    """Remove the first utterance from a table."""
    utt, *others = (line.split()[0] for line in Path(table).read_text().splitlines())
    keep_lines(Path(table), others)
    return utt


@pytest.mark.parametrize("step", ["deltas", "lda-mllt", "sat", "align", "chain-tree"])
def test_a_lang_folder_that_numbers_phones_differently_is_refused(
    step: str, lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(find_lang(), "lang")
    table = Path("lang/phones.txt")
    table.write_text(table.read_text().replace("\naa 2\nae 3\n", "\nae 2\naa 3\n"))
    assert main(["gmm", step, "data", "lang", "mono", "out"]) == 1
    message = "lang/phones.txt: the id of ae is 2, but 3 in mono/phones.txt; take the lang folder"
    assert message in capsys.readouterr().err
    assert not Path("out/final.mdl").exists()


@pytest.mark.slow
def test_an_utterance_without_features_is_named_and_left_out(
    lab: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    utt = without_line("data/feats.scp")
    train(lab, out="new")
    align(lab, max_skipped=0.3)
    said = caplog.text
    assert said.count(f"data: data/feats.scp: {utt} has no features; extract them, or remove") == 2
    assert said.count(f"no alignment of data for 1 of 4 utterances: {utt}; they are skipped") == 2
    with pytest.raises(InputError, match=r"1 of 4 .* --max-skipped = 0\.2 allows.*0\.25$"):
        align(lab, "less", max_skipped=0.2)
    monkeypatch.setenv(SCRIPT, "run.sh")
    with pytest.raises(InputError, match=r"data\.max_skipped=0\.25; .*--features mfcc needs none"):
        align(lab, "less", max_skipped=0.2)


@pytest.mark.slow
def test_an_utterance_without_frames_is_left_out(
    lab: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As Kaldi's steps do; the models are those of the others."""
    speakers = read_mapping(Path("data/utt2spk"))
    align(lab, adapt=True)
    write_fmllr(Path("data"), Path("mono"), Path("ali"), Path("whole"))
    utt = "a-empty"
    put_empty_first(Path("data"), utt, next(iter(speakers.values())))
    with Path("data/text").open("a") as text:
        text.write(f"{utt} sil\n")
    train(lab, out="new")
    assert Path("new/final.mdl").read_bytes() == Path("mono/final.mdl").read_bytes()
    assert f"no alignment of data for 1 of 5 utterances: {utt}; they are skipped" in caplog.text
    assert write_fmllr(Path("data"), Path("mono"), Path("ali"), Path("adapted")) == 4
    assert f"no frames in data for 1 of 5 utterances: {utt}; they are skipped" in caplog.text
    for name in ("feats.ark", "cmvn.ark"):
        assert Path("adapted", name).read_bytes() == Path("whole", name).read_bytes()


def test_a_speaker_who_is_not_aligned_keeps_his_features(lab: Path) -> None:
    """His transform is the identity, which Kaldi's gmm-est-fmllr writes for him too."""
    utt = without_line("data/text")
    speakers = read_mapping(Path("data/utt2spk"))
    assert list(speakers.values()).count(speakers[utt]) == 1
    align(lab, adapt=True, max_skipped=0.3)
    transforms = read_transforms(Path("ali"))
    assert transforms.keys() == set(speakers.values())
    assert (transforms[speakers[utt]] == np.eye(39, 40)).all()
    assert write_fmllr(Path("data"), Path("ali"), Path("ali"), Path("adapted")) == 4


@pytest.mark.parametrize(("schedule", "before"), AFTER)
def test_features_that_are_lost_after_alignment_end_a_training(
    schedule: TrainingSchedule, before: str, lab: Path
) -> None:
    lay_out(before, lab)
    utt = without_line("data/feats.scp")
    with pytest.raises(InputError, match=f"feats.scp: {utt} has no features; extract them"):
        train(lab, schedule, before, "out")


@pytest.mark.parametrize(("every", "by_lfmmi"), [(1, False), (3, True)])
def test_alignments_of_fewer_frames_say_what_may_have_made_them(
    every: int, by_lfmmi: bool, lab: Path
) -> None:
    aligned = dict(iter_int_vectors(Path("mono/ali.1.gz")))
    shorter = ((utt, tids[:-1:every]) for utt, tids in aligned.items())
    write_int_vectors(shorter, Path("mono/ali.1.gz"))
    utt, tids = next(iter(aligned.items()))
    counts = f"{utt} has {len(tids)} frames of .* has {len(range(0, len(tids) - 1, every))};"
    with pytest.raises(InputError, match=counts) as caught:
        train(lab, DELTAS, "mono", "out")
    assert ("by a run of LF-MMI" in str(caught.value)) == by_lfmmi


@pytest.mark.parametrize(("schedule", "before"), AFTER)
def test_alignments_of_other_utterances_are_refused(
    schedule: TrainingSchedule, before: str, lab: Path
) -> None:
    lay_out(before, lab)
    for name in ("feats.scp", "text", "utt2spk"):
        lines = Path("data", name).read_text().splitlines()
        Path("data", name).write_text("".join(f"other-{line}\n" for line in lines))
    with pytest.raises(InputError, match=f"no alignment in {before} of data for any of 4 utt"):
        train(lab, schedule, before, "out")


def test_too_few_alignments_are_refused_and_named(lab: Path) -> None:
    align(lab)
    (utt, *others) = Path("data/utt2spk").read_text().split()[::2]
    keep_lines(Path("data/text"), [utt])
    align(lab, "one")
    with pytest.raises(InputError) as raised:
        train(lab, DELTAS, "one", "out")
    assert f"no alignment in one of data for 3 of 4 utterances: {', '.join(others)}" in str(raised)


def test_transcripts_that_are_missing_are_counted(
    lab: Path, caplog: pytest.LogCaptureFixture
) -> None:
    utt = without_line("data/text")
    train(lab, out="new")
    assert f"no graph of data for 1 of 4 utterances: {utt}; they are skipped" in caplog.text
    keep_lines(Path("data/text"), [])
    with pytest.raises(InputError, match="no graph of data for any of 4 utterances"):
        train(lab, out="none")
    Path("data/text").unlink()
    with pytest.raises(InputError, match=r"data/text: there are no transcripts to align"):
        train(lab, out="none")


def test_words_that_the_lexicon_lacks_are_counted(
    lab: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = Path("data/text").read_text()
    Path("data/text").write_text(text.replace(" iy ", " zebra "))
    train(lab, out="new")
    words = len(text.split()) - 4
    said = f"data/text: {text.count(' iy ')} of {words} words are not in {find_lang()}/words.txt"
    assert f"{said}, the first in {text.split()[0]}: zebra; the word of oov" in caplog.text


def test_transcripts_in_other_units_than_the_lexicon_are_refused(lab: Path) -> None:
    """Half of the words may be without phones; nothing is aligned by the word of oov.txt alone."""
    utterances = [line.split()[:2] for line in Path("data/text").read_text().splitlines()]
    half = [f"{utt} {13 * f'{known} zebra '}" for utt, known in utterances]
    Path("data/text").write_text("\n".join(half) + "\n")
    train(lab, out="half")
    Path("data/text").write_text("\n".join([*half[:-1], f"{half[-1]} zoo"]) + "\n")
    for step in (align, train):
        with pytest.raises(InputError) as raised:
            step(lab, out="other")
        one_line(
            raised,
            "data/text: 53 of 105 words are not in",
            f"first in {utterances[0][0]}: zebra, zoo",
        )
    assert not Path("other/ali.1.gz").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["zebra"], "1 of 1"),
        (["{known} zebra crossing"], "2 of 3"),
        ([*["zebra " * 25] * 3, "zebra " * 24], "99 of 99"),
    ],
)
def test_most_of_a_few_words_may_be_unknown(
    words: list[str], said: str, lab: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As a short sentence of names: they are aligned by the word of oov.txt."""
    spoken = [line.split()[:2] for line in Path("data/text").read_text().splitlines()]
    few = {
        utt: text.format(known=known)
        for (utt, known), text in zip(spoken[: len(words)], words, strict=True)
    }
    Path("data/text").write_text("".join(f"{utt} {text}\n" for utt, text in few.items()))
    align(lab, "few")
    assert len(dict(iter_int_vectors(Path("few/ali.1.gz")))) == len(words)
    assert f"data/text: {said} words are not in" in caplog.text


@pytest.mark.slow
def test_other_features_in_the_same_archive_begin_anew(
    lab: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ark, scp = Path("data/feats.ark"), Path("data/feats.scp")
    size, names, model = ark.stat().st_size, scp.read_text(), Path("mono/final.mdl").read_bytes()
    train(lab)
    assert Path("mono/final.mdl").read_bytes() == model
    write_matrices([(utt, -x) for utt, x in iter_matrices(ark)], ark)
    assert (ark.stat().st_size, scp.read_text()) == (size, names)
    caplog.set_level("INFO")
    train(lab)
    assert Path("mono/final.mdl").read_bytes() != model
    assert "mono: options or inputs have changed, all is made anew" in caplog.text


@pytest.mark.parametrize("lost", ["final.mdl", "tree"])
def test_a_result_that_is_lost_is_made_anew(lost: str, lab: Path) -> None:
    before = Path("mono", lost).read_bytes()
    Path("mono", lost).unlink()
    train(lab)
    assert Path("mono", lost).read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["trans.1", "final.alimdl"])
def test_a_result_of_an_adapting_alignment_that_is_lost_is_made_anew(lost: str, lab: Path) -> None:
    """Without final.alimdl, `decode` would take its model for one that was not adapted."""
    shutil.copyfile("mono/final.mdl", "mono/final.alimdl")
    align(lab)
    before = Path("ali", lost).read_bytes()
    Path("ali", lost).unlink()
    align(lab)
    assert Path("ali", lost).read_bytes() == before


def test_what_begins_anew_leaves_no_file_of_what_was(
    lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model with the tree, the alignments or the transforms of another would be no model."""
    for name in ("trans.1", "trans.2", "final.mat", "final.alimdl"):
        Path("mono", name).write_bytes(b"of another training")
    monkeypatch.setitem(SHORT, "gaussians", 160)

    def stop(*_: object) -> NoReturn:
        raise InputError("stopped")

    with monkeypatch.context() as patched:
        patched.setattr(GmmTrainer, "initialise", stop)
        with pytest.raises(InputError, match="stopped"):
            train(lab)
    assert {path.name for path in Path("mono").iterdir()} == {
        *("cmvn_opts", "gmm.json", "num_jobs", "phones.txt")
    }
    train(lab)
    assert not Path("mono/trans.1").exists()


@pytest.mark.parametrize("out", ["data", "mono", "lang"])
def test_what_is_read_is_not_written_to(
    out: str, lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(find_lang(), "lang")
    before = contents(lab)
    for words in ("deltas data lang mono", "align data lang mono"):
        assert main(["gmm", *words.split(), out]) == 1
        said = capsys.readouterr().err
        assert said == f"bayes-asr gmm: error: {out}: holds what is read; choose another folder\n"
    assert contents(lab) == before


def test_a_model_of_other_features_is_refused_once(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mono/delta_opts").write_text("--delta-order=1\n")
    assert main(["gmm", "align", "data", str(find_lang()), "mono", "ali"]) == 1
    assert capsys.readouterr().err == (
        "bayes-asr gmm: error: data/feats.scp: the model mono/final.mdl reads features of 39"
        " values, but here are 26; extract those that it was trained on\n"
    )
