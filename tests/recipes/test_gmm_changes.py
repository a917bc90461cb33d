"""local/gmm.sh: which steps it repeats, where what they read has changed."""

import os
import shutil
from pathlib import Path

import pytest

from bayes_asr.kaldi_io.text import write_lines
from tests.support.gmm_stub import GmmExperiment


@pytest.fixture
def experiment(tmp_path: Path) -> GmmExperiment:
    return GmmExperiment(tmp_path)


@pytest.mark.slow
def test_step_is_repeated_when_what_it_reads_has_changed(experiment: GmmExperiment) -> None:
    def steps(*options: str) -> list[str]:
        assert experiment.run("--nj", "2", *options).endswith("status 0")
        return [call.split(" --")[0] for call in experiment.calls()]

    steps("--stop-stage", "3")
    (experiment.out / "data/dev/text").write_text("dev0 other words\n")
    assert steps("--stop-stage", "3") == ["features data/dev"]
    (experiment.out / "exp/mono_ali/ali.1.gz").unlink()
    assert steps("--stop-stage", "3") == [
        "gmm align data/train data/lang exp/mono exp/mono_ali",
        "gmm deltas data/train data/lang exp/mono_ali exp/tri1",
    ]


@pytest.mark.slow
def test_references_that_have_changed_reach_the_adapted_features(
    experiment: GmmExperiment,
) -> None:
    def steps(*options: str) -> list[str]:
        assert experiment.run("--nj", "2", *options).endswith("status 0")
        return experiment.calls()

    assert steps()
    assert steps("--stage", "8") == []
    (experiment.out / "data/dev/stm").write_text("dev0 1 dev0 0 1 words\n")
    again = "gmm features data/dev exp/tri3 exp/tri3/decode_dev data-fmllr-tri3/dev"
    assert steps("--stage", "8") == [again]
    (experiment.out / "data/dev/text").touch()
    assert steps("--stage", "8") == []


@pytest.mark.slow
def test_lang_folders_are_made_anew_where_any_file_of_the_dictionary_has_changed(
    experiment: GmmExperiment,
) -> None:
    """Not where a version that did not look at it has made them: all would be trained anew."""

    def steps() -> int:
        assert experiment.run("--nj", "2", "--stop-stage", "0").endswith("status 0")
        return len(experiment.calls())

    questions = experiment.out / "data/local/dict/extra_questions.txt"
    assert (steps(), steps()) == (1, 0)
    questions.write_text("g ow\n")
    assert (steps(), steps()) == (1, 0)
    (experiment.out / "log/gmm_lang.dict").unlink()
    questions.write_text("ow g\n")
    assert (steps(), steps()) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("table", ["text", "utt2spk", "cmvn.scp"])
def test_tables_beside_prepared_cepstra_that_have_changed_begin_anew(
    table: str, experiment: GmmExperiment
) -> None:
    for name in ("train", "dev", "test"):
        data = experiment.out / "data" / name
        (data / "wav.scp").rename(data / "feats.scp")
        shutil.copy(data / "feats.scp", data / "cmvn.scp")

    def steps(*options: str) -> list[str]:
        assert experiment.run("--nj", "2", *options).endswith("status 0")
        return [call.split()[1] for call in experiment.calls()]

    begin = ("--stop-stage", "3")
    assert (steps(*begin), steps(*begin)) == (["lang", "mono", "align", "deltas"], [])
    with (experiment.out / "data/train" / table).open("a") as file:
        file.write("train9 train9\n")
    assert (steps(*begin), steps(*begin)) == (["mono", "align", "deltas"], [])
    decode = ("--stage", "6", "--stop-stage", "6")
    steps(*begin[:1], "5")
    steps(*decode)
    with (experiment.out / "data/dev" / table).open("a") as file:
        file.write("dev9 dev9\n")
    assert ("decode" in steps(*decode)) == (table != "text")  # which is scored against


def test_dither_of_a_recipe_reaches_its_features_and_makes_them_anew(
    experiment: GmmExperiment,
) -> None:
    def sets() -> list[str]:
        assert experiment.run("--nj", "2", "--stage", "1", "--stop-stage", "1").endswith("status 0")
        return experiment.calls()

    plain = [f"features data/{name}" for name in ("train", "dev", "test")]
    assert sets() == plain
    with (experiment.folder / "checkout/recipes/timit/kaldi.sh").open("a") as settings:
        settings.write("dither=0.5\n")
    assert sets() == [f"{call} --dither 0.5" for call in plain]
    assert sets() == []


@pytest.mark.parametrize(("name", "line"), [("a sound", "{}"), ("recorded", "sox {} -t wav - |")])
def test_mfcc_are_computed_anew_where_a_sound_has_changed(
    name: str, line: str, experiment: GmmExperiment
) -> None:
    def steps() -> list[str]:
        assert experiment.run("--nj", "2", "--stop-stage", "1").endswith("status 0")
        return [call for call in experiment.calls() if call.startswith("features")]

    sound = experiment.folder / f"{name}.wav"
    sound.write_bytes(b"RIFF")
    data = experiment.out / "data/dev"
    data.joinpath("wav.scp").write_text(f"dev0 {line.format(sound)}\n")
    assert len(steps()) == 3
    assert steps() == []
    later = (experiment.out / "log/gmm_mfcc_dev.done").stat().st_mtime + 1
    os.utime(sound, (later, later))
    assert steps() == ["features data/dev"]


@pytest.mark.slow
def test_scores_are_counted_anew_where_an_included_file_has_changed(
    experiment: GmmExperiment,
) -> None:
    included = experiment.folder / "included.yaml"
    included.write_text("score: {metric: per}\n")
    config = experiment.folder / "config.yaml"
    config.write_text(f"include: {included}\n")

    def scored() -> int:
        assert experiment.run("--nj", "2", "--config", str(config)).endswith("status 0")
        return sum(call.startswith("gmm score") for call in experiment.calls())

    assert (scored(), scored()) == (4, 0)
    included.write_text("score: {metric: wer}\n")
    assert (scored(), scored()) == (4, 0)


@pytest.mark.slow
def test_tables_that_are_prepared_again_with_the_same_lines_change_nothing(
    experiment: GmmExperiment,
) -> None:
    """As where the corpus is given by another of its names, or a file came that nobody reads."""

    def steps() -> int:
        assert experiment.run("--nj", "2").endswith("status 0")
        return len(experiment.calls())

    assert steps() > 0
    prepared = [p for p in experiment.out.glob("data/*/**/*") if p.suffix in ("", ".txt", ".arpa")]
    tables = [path for path in prepared if path.is_file()]
    assert {"text", "utt2spk", "lexicon.txt", "lm.arpa"} <= {path.name for path in tables}
    for path in tables:
        write_lines(path.read_text().splitlines(), path)
    assert steps() == 0
    write_lines(["train0 other words"], experiment.out / "data/train/text")
    assert steps() > 0
