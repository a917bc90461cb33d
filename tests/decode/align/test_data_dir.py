"""bayes-asr align: from a data directory to alignments that training reads, and what it refuses."""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from bayes_asr.cli import main
from bayes_asr.data.targets.alignments import Alignments
from bayes_asr.decode.align.data_dir import AlignSummary
from bayes_asr.kaldi_io.ark import iter_matrices, write_matrices
from bayes_asr.kaldi_io.symbols import read_symbols
from bayes_asr.kaldi_io.text import read_mapping, read_text, write_text
from tests.support.places import CONF
from tests.support.small_corpus import settings
from tests.support.spoken_corpus import MEANS, WORDS, write_spoken_corpus
from tests.support.textgrids import read_textgrid

TIMED = ("words.ctm", "phones.ctm", "confidence.txt")


def flat(root: Path, name: str, *more: str) -> int:
    out = root / "exp" / ("ali" if name == "train" else f"ali_{name}")
    options = [f"--data={root / 'data' / name}", f"--lang={root / 'dict'}", f"--out={out}"]
    return main(["align", "--flat", *options, *more])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus with a first alignment of train and dev."""
    root = write_spoken_corpus(tmp_path_factory.mktemp("corpus"), {"train": 12, "dev": 4})
    assert flat(root, "train") == 0
    assert flat(root, "dev", f"--model={root / 'exp' / 'ali' / 'final.mdl'}") == 0
    return root


@pytest.fixture(scope="module")
def run(corpus: Path) -> Path:
    """A network trained from the first alignment."""
    more = ("train.epochs=8", "features.left_context=2", "features.right_context=2")
    run = corpus / "run"
    assert main(["train", str(CONF / "base.yaml"), *settings(corpus, *more), f"--out={run}"]) == 0
    return run


def test_alignments_beside_the_model_that_is_read_stay(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ali = corpus / "exp" / "ali"
    before = (ali / "ali.1.gz").read_bytes()
    assert flat(corpus, "dev", f"--model={ali / 'final.mdl'}", f"--out={ali}") == 1
    assert f"{ali}: holds what is read" in capsys.readouterr().err
    assert (ali / "ali.1.gz").read_bytes() == before


@pytest.mark.slow
def test_a_network_starts_from_nothing_and_finds_the_phones(corpus: Path, run: Path) -> None:
    """The network moves the boundaries to where the sound changes."""
    first, out = Alignments(corpus / "exp" / "ali"), corpus / "exp" / "ali2"
    lang = f"--lang={corpus / 'dict'}"
    assert main(["align", str(run), "--on=train", lang, f"--out={out}"]) == 0
    second = Alignments(out)
    assert read_symbols(out / "phones.txt") == {"<eps>": 0, "sil": 1, "a": 2, "b": 3, "c": 4}
    right = {"first": 0, "second": 0}
    total = 0
    for utt, matrix in iter_matrices(corpus / "data" / "train" / "feats.scp"):
        truth = 1 + ((matrix[:, None] - MEANS) ** 2).sum(-1).argmin(1)
        right["first"] += int((first.phones(utt) == truth).sum())
        right["second"] += int((second.phones(utt) == truth).sum())
        total += len(matrix)
    assert right["first"] < 0.65 * total
    assert right["second"] > 0.75 * total


@pytest.mark.slow
def test_the_summary_counts(corpus: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, data = corpus / "elsewhere", corpus / "data" / "dev"
    given = [f"--data={data}", f"--lang={corpus / 'dict'}", f"--out={out}", "--json", "--nj=2"]
    assert main(["align", str(run), *given]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["utterances"] == summary["aligned"] == len(Alignments(out)) == 4
    assert summary["failed"] == []


def test_what_cannot_be_aligned_is_named(
    corpus: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (corpus / "data" / "dev" / "text").read_text().splitlines()
    utts = [line.split()[0] for line in text]
    data = tmp_path / "dev"
    data.mkdir()
    for name in ("feats.scp", "utt2spk"):
        (data / name).write_bytes((corpus / "data" / "dev" / name).read_bytes())
    (data / "text").write_text(f"{utts[0]} one zebra\n{utts[1]} {'six ' * 90}\n{text[2]}\n")
    given = [f"--data={data}", f"--lang={corpus / 'dict'}", f"--out={tmp_path / 'ali'}"]
    assert main(["align", str(run), *given]) == 1
    said = capsys.readouterr().err
    assert f"{utts[0]}: the word zebra is not in the lexicon" in said
    assert f"{utts[1]}: no path of its 90 words" in said
    assert f"{utts[3]}: there is no transcript" in said
    assert f"no alignment of {data} for 3 of 4 utterances" in said
    assert not (tmp_path / "ali" / "ali.1.gz").exists()
    assert main(["align", "--flat", *given]) == 1
    said = capsys.readouterr().err
    assert f"{utts[1]}: " in said
    assert "but the transcript has 810 states" in said


def test_transcripts_in_other_units_than_the_lexicon_are_refused(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half of 100 words may be without phones, as by `gmm align`; one more is refused."""
    text, out = tmp_path / "text", tmp_path / "ali"
    utts = [line.split()[0] for line in (corpus / "data/dev/text").read_text().splitlines()]
    given = [f"--data={corpus / 'data/dev'}", f"--lang={corpus / 'dict'}", f"--text={text}"]
    model = f"--model={corpus / 'exp/ali/final.mdl'}"
    for unknown, refused in ((50, False), (51, True)):
        spoken = [*["zebra"] * unknown, *["one"] * (100 - unknown)]
        lines = [f"{utt} {' '.join(spoken[i::4])}\n" for i, utt in enumerate(utts)]
        text.write_text("".join(lines))
        assert main(["align", "--flat", *given, model, "--oov=one", f"--out={out}"]) == 1
        said = capsys.readouterr().err
        assert f"{text}: {unknown} of 100 words are not in {corpus / 'dict'}, the first" in said
        assert ("transcripts and lexicon must be of the same units" in said) == refused


@pytest.mark.slow
def test_words_of_a_set_are_spelled_where_the_lexicon_is_of_letters(
    corpus: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As if the lexicon had them; what has a letter that no word has stays unknown."""
    data = shutil.copytree(corpus / "data" / "dev", tmp_path / "dev")
    text = data / "text"
    for word, phones in WORDS.items():
        text.write_text(text.read_text().replace(word, phones.replace(" ", "")))
    text.write_text(text.read_text().replace("bc", "xylo", 1))
    langs = {"few": ["ab", "ca"], "all": ["ab", "ca", "bc", "cac"]}
    aligned = {}
    for name, words in langs.items():
        lang = shutil.copytree(corpus / "dict", tmp_path / name)
        entries = [f"{word} {' '.join(word)}\n" for word in words]
        (lang / "lexicon.txt").write_text("".join([*entries, "<unk> sil\n"]))
        given = [f"--data={data}", f"--lang={lang}", "--oov=<unk>"]
        model = f"--model={corpus / 'exp' / 'ali' / 'final.mdl'}"
        for how in (["--flat", model], [str(run), "--nj=2"]):
            assert main(["align", *how, *given, f"--out={tmp_path / 'ali'}"]) == 0
            aligned[name, how[0]] = (tmp_path / "ali" / "ali.1.gz").read_bytes()
            shutil.rmtree(tmp_path / "ali")
        assert main(["pronunciation", str(run), *given, f"--out={tmp_path / 'gop'}"]) == 0
        aligned[name, "gop"] = (tmp_path / "gop" / "gop.json").read_bytes()
        shutil.rmtree(tmp_path / "gop")
        said = capsys.readouterr().err
        assert f"{text}: 1 of 12 words are not in {lang}, the first in " in said
        assert ": xylo; <unk> stands for them" in said
        assert (f"{text}: the lexicon lacks, and spells: " in said) == (name == "few")
    for how in ("--flat", str(run), "gop"):
        assert aligned["few", how] == aligned["all", how]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--flat", "--on=dev"], "--flat takes --data DIR and --lang DIR, and no run"),
        (["--flat", "--data=D", "--beam=9", "--nj=2"], "--beam, --nj: of no use with --flat"),
        (["--on=dev"], "give the run to align with"),
        (["RUN", "--on=train", "--out=ALI"], "holds the alignments that the run was trained on"),
    ],
)
def test_arguments_that_do_not_go_together(
    arguments: list[str],
    message: str,
    corpus: Path,
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {"RUN": str(run), "--out=ALI": f"--out={corpus / 'exp' / 'ali'}"}
    given = [f"--lang={corpus / 'dict'}", f"--out={tmp_path / 'ali'}"]
    assert main(["align", *given, *(places.get(a, a) for a in arguments)]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["ali.2.gz", "ali.1.gz", "final.mdl"])
def test_models_and_alignments_of_others_stay(
    name: str, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kaldi's folders of a model, or of one job, have no align.json."""
    (tmp_path / name).write_bytes(b"Kaldi's")
    assert flat(corpus, "dev", f"--out={tmp_path}") == 1
    assert f"holds {name}, which bayes-asr align did not write" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {name: b"Kaldi's"}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_words_of_an_earlier_alignment_go_with_it(corpus: Path, tmp_path: Path) -> None:
    """As when a network has aligned there; in a folder of another's they stay."""
    for name in TIMED:
        (tmp_path / name).write_text("by hand")
    assert flat(corpus, "dev", f"--out={tmp_path}") == 0
    assert contents(tmp_path).keys() > set(TIMED)
    assert flat(corpus, "dev", f"--out={tmp_path}") == 0
    assert not contents(tmp_path).keys() & set(TIMED)


def other_lang(corpus: Path, folder: Path, words: Iterable[str]) -> Path:
    """A dictionary of some of the words, whose model has other numbers."""
    shutil.copytree(corpus / "dict", folder)
    (folder / "lexicon.txt").write_text("".join(f"{w} z {WORDS[w]}\n" for w in words))
    return folder


def test_a_command_that_fails_leaves_what_was_there(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "ali"
    assert flat(corpus, "dev", f"--out={out}") == 0
    before = contents(out)
    assert before.keys() == {"ali.1.gz", "align.json", "final.mdl", "phones.txt", "tree"}
    lacking = other_lang(corpus, tmp_path / "lacking", ["one"])
    assert flat(corpus, "dev", f"--out={out}", f"--lang={lacking}") == 1
    assert contents(out) == before
    whole = other_lang(corpus, tmp_path / "whole", WORDS)
    assert flat(corpus, "dev", f"--out={out}", f"--lang={whole}") == 0
    assert contents(out).keys() == before.keys()
    assert "z" in read_symbols(out / "phones.txt")
    assert len(Alignments(out)) == json.loads((out / "align.json").read_text())["aligned"] == 4


def test_alignments_never_stand_beside_another_model(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever file is the last that a killed process puts in place."""
    out = tmp_path / "ali"
    assert flat(corpus, "dev", f"--out={out}") == 0
    old = contents(out)
    replace, seen = Path.replace, []

    def watched(self: Path, target: Path) -> Path:
        replaced = replace(self, target)
        seen.append({p.name: p.read_bytes() for p in out.iterdir() if p.is_file()})
        return replaced

    monkeypatch.setattr(Path, "replace", watched)
    lang = other_lang(corpus, tmp_path / "lang", WORDS)
    assert flat(corpus, "dev", f"--out={out}", f"--lang={lang}") == 0
    new = contents(out)
    assert new["final.mdl"] != old["final.mdl"]
    assert sum(now.get("final.mdl") == old["final.mdl"] for now in seen) > 1
    for now in seen:
        now.pop(".in_use", None)
        assert now.items() <= old.items() or now.items() <= new.items()


def test_utterances_without_features_are_held_to_the_limit(
    corpus: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "dev"
    shutil.copytree(corpus / "data" / "dev", data)
    first, *others = (data / "feats.scp").read_text().splitlines(keepends=True)
    (data / "feats.scp").write_text("".join(others))
    message = f"no features in {data} for 1 of 4 utterances: {first.split()[0]}; more than"
    refused = "--max-skipped = 0.05 allows: mend them, or skip them by --max-skipped 0.25"
    given = [f"--data={data}", f"--lang={corpus / 'dict'}", f"--out={tmp_path / 'ali'}"]
    assert main(["align", "--flat", *given]) == 1
    assert f"{message} {refused}" in capsys.readouterr().err
    assert main(["align", str(run), *given]) == 1
    assert f"{message} {refused}" in capsys.readouterr().err
    assert main(["align", "--flat", *given, "--max-skipped=0.25"]) == 0
    assert main(["align", str(run), *given, "--max-skipped=0.25"]) == 0


def test_a_first_alignment_reads_pipes_on_request(corpus: Path, tmp_path: Path) -> None:
    data, out = tmp_path / "dev", tmp_path / "ali"
    shutil.copytree(corpus / "data" / "dev", data)
    (data / "feats.scp").unlink()
    with (data / "feats.scp").open("w") as scp:
        for utt, matrix in iter_matrices(corpus / "data" / "dev" / "feats.scp"):
            write_matrices([(utt, matrix)], tmp_path / f"{utt}.ark")
            scp.write(f"{utt} tail -c +{len(utt) + 2} {tmp_path / utt}.ark |\n")
    assert flat(corpus, "dev", f"--data={data}", f"--out={out}") == 1
    assert flat(corpus, "dev", f"--data={data}", f"--out={out}", "--allow-pipes") == 0
    assert len(Alignments(out)) == 4


@pytest.mark.slow
def test_ctms_and_textgrids_have_the_frames_of_the_alignment(
    corpus: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the archive says, in every file, with one process and with two."""
    pytest.importorskip("praatio")
    data = corpus / "data" / "dev"
    given = [str(run), f"--data={data}", f"--lang={corpus / 'dict'}"]
    assert main(["align", *given, f"--textgrid={tmp_path / 'one'}"]) == 0
    assert "mean confidence 0." in capsys.readouterr().out
    more = [f"--textgrid={tmp_path / 'two' / 'grids'}", f"--out={tmp_path / 'two'}", "--nj=2"]
    assert main(["align", *given, *more]) == 0
    alignments, phones = Alignments(tmp_path / "one"), read_symbols(tmp_path / "one" / "phones.txt")
    texts = read_text(data / "text")
    for name in TIMED:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert read_mapping(tmp_path / "one" / "confidence.txt").keys() == texts.keys()
    for utt, words in texts.items():
        grid = tmp_path / "one" / f"{utt}.TextGrid"
        assert grid.read_bytes() == (tmp_path / "two" / "grids" / f"{utt}.TextGrid").read_bytes()
        end, tiers = read_textgrid(grid)
        by_frame = [
            phones[label]
            for begin, stop, label in tiers["phones"]
            for _ in range(round(100 * begin), round(100 * stop))
        ]
        assert by_frame == alignments.phones(utt).tolist()
        assert end == pytest.approx(len(by_frame) / 100)
        assert [label for *_, label in tiers["words"]] == words
        for tier, intervals in tiers.items():
            lines = (tmp_path / "one" / f"{tier}.ctm").read_text().splitlines()
            fields = [line.split() for line in lines if line.split()[0] == utt]
            assert [float(row[2]) for row in fields] == [begin for begin, *_ in intervals]
            assert [row[4] for row in fields] == [label for *_, label in intervals]
            assert all(0 <= float(row[5]) <= 1 for row in fields)


@pytest.mark.parametrize("files", ["sw1-A sw1 A\nsw1-B sw1 B\n", None])
def test_textgrids_end_with_their_recordings(
    files: str | None, corpus: Path, run: Path, tmp_path: Path
) -> None:
    pytest.importorskip("praatio")
    data = tmp_path / "data"
    shutil.copytree(corpus / "data" / "dev", data)
    rows = [
        f"{utt} sw1-{'AB'[i % 2]} {20 * i} {20 * i + 10}"
        for i, utt in enumerate(read_text(data / "text"))
    ]
    (data / "segments").write_text("\n".join(rows) + "\n")
    (data / "reco2dur").write_text("sw1-A 100\nsw1-B 100\n")
    if files:
        (data / "reco2file_and_channel").write_text(files)
    given = [str(run), f"--data={data}", f"--lang={corpus / 'dict'}"]
    assert main(["align", *given, f"--textgrid={tmp_path / 'grids'}"]) == 0
    ends = {grid.stem: read_textgrid(grid)[0] for grid in tmp_path.rglob("*.TextGrid")}
    assert ends == dict.fromkeys(["sw1"] if files else ["sw1-A", "sw1-B"], 100.0)


@pytest.mark.parametrize(("gap", "code"), [(9.96, 1), (9.98, 0)])
def test_utterances_that_overlap_are_refused_before_the_work(
    gap: float,
    code: int,
    corpus: Path,
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """But for what the window of a last frame may have in common with the next."""
    pytest.importorskip("praatio")
    data, ali = tmp_path / "data", tmp_path / "ali"
    shutil.copytree(corpus / "data" / "dev", data)
    utts = [*read_text(data / "text")]
    rows = [f"{utt} rec {gap * i:.2f} {gap * i + 10:.2f}\n" for i, utt in enumerate(utts)]
    (data / "segments").write_text("".join(rows))
    (data / "utt2spk").write_text("".join(f"{utt} ann\n" for utt in utts))
    given = [str(run), f"--data={data}", f"--lang={corpus / 'dict'}", f"--out={ali}"]
    assert main(["align", *given, f"--textgrid={tmp_path / 'grids'}"]) == code
    assert ali.exists() == (code == 0)
    assert (f"rec: {utts[1]} begins at" in capsys.readouterr().err) == bool(code)


def test_annotations_beside_data_and_sounds_stay(
    corpus: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the work; in a folder of its own, the same command replaces what it wrote."""
    pytest.importorskip("praatio")
    data, field = tmp_path / "data", tmp_path / "field"
    shutil.copytree(corpus / "data" / "dev", data)
    field.mkdir()
    utt, *others = read_text(data / "text")
    scp = [f"{utt} {field / utt}.wav\n", *(f"{other} sox {other} |\n" for other in others)]
    (data / "wav.scp").write_text("".join(scp))
    given = ["align", str(run), f"--data={data}", f"--lang={corpus / 'dict'}"]
    new = tmp_path / "new"
    for annotation in (data / "phones.ctm", data / f"{utt}.TextGrid", field / f"{utt}.TextGrid"):
        annotation.write_text("by hand")
        folders = [f"--textgrid={annotation.parent}", f"--out={new}"]
        assert main([*given, *folders[: 1 + (annotation.suffix == ".TextGrid")]]) == 1
        assert f"{annotation}: " in capsys.readouterr().err
        assert annotation.read_text() == "by hand"
        assert not new.exists()
        annotation.unlink()
    for further, code in (([], 0), ([], 1), (["--force"], 0)):
        assert main([*given, f"--textgrid={field}", f"--out={new}", *further]) == code
    for _ in range(2):
        assert main([*given, f"--textgrid={new}"]) == 0


def test_an_utterance_that_is_skipped_leaves_no_earlier_textgrid(
    corpus: Path, run: Path, tmp_path: Path
) -> None:
    pytest.importorskip("praatio")
    data, out = corpus / "data" / "dev", tmp_path / "out"
    given = ["align", str(run), f"--data={data}", f"--lang={corpus / 'dict'}", f"--textgrid={out}"]
    text = read_text(data / "text")
    assert main(given) == 0
    (out / "of_another.TextGrid").touch()
    skipped = next(iter(text))
    text[skipped] = ["nobody"]
    write_text(text.items(), tmp_path / "text")
    assert main([*given, f"--text={tmp_path / 'text'}", "--max-skipped=0.5"]) == 0
    grids = {path.stem for path in out.glob("*.TextGrid")}
    assert grids == {*text, "of_another"} - {skipped}


def test_textgrids_stay_where_too_many_utterances_fail(
    corpus: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("praatio")
    text = read_text(corpus / "data" / "dev" / "text")
    text[next(iter(text))] = ["nobody"]
    write_text(text.items(), tmp_path / "text")
    given = [str(run), "--on=dev", f"--lang={corpus / 'dict'}", f"--text={tmp_path / 'text'}"]
    folders = [f"--out={tmp_path / 'ali'}", f"--textgrid={tmp_path / 'grids'}"]
    assert main(["align", *given, *folders, "--max-skipped=0"]) == 1
    assert not [*tmp_path.rglob("*.TextGrid")]


def test_utterances_of_other_texts_are_named(
    corpus: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = read_text(corpus / "data" / "dev" / "text")
    text["dev0-1"] = ["one", "one", "two", "two", "one", "one"]
    write_text(text.items(), tmp_path / "text")
    given = [str(run), "--on=dev", f"--lang={corpus / 'dict'}", f"--text={tmp_path / 'text'}"]
    assert main(["align", *given, f"--out={tmp_path / 'ali'}", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    record = json.loads((tmp_path / "ali" / "align.json").read_text())
    assert min(summary["doubtful"], key=summary["doubtful"].get) == "dev0-1"
    assert record["doubtful"] == summary["doubtful"]
    assert 0 < summary["confidence"] < 1


def test_where_most_texts_seem_wrong_they_are_or_the_network_is() -> None:
    """Exchanged texts look as those of the first networks of a recipe without Kaldi."""
    summary = AlignSummary(utterances=5, aligned=4)
    summary.rate({"a": 0.9, "b": 0.3, "c": 0.8, "d": 0.7})
    assert summary.describe_doubts() == (
        "text and sound of 1 utterance disagree (confidence below 0.6): b (0.30)"
    )
    summary.rate({"a": 0.1, "b": 0.3, "c": 0.2, "d": 0.7})
    doubts = summary.describe_doubts()
    assert "3 of 4 utterances have a confidence below 0.6: the texts are of other utt" in doubts
    assert "or the network knows too little" in doubts
    assert doubts.endswith("a (0.10), c (0.20), b (0.30)")
