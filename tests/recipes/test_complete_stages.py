"""run.sh and local/stages.sh: what is complete is not repeated, what has changed is."""

import os
import shutil
from pathlib import Path

import pytest

from bayes_asr.recipe.stages.preparation import has_changed
from tests.support.script_stubs import Checkout


@pytest.mark.slow
def test_corpus_that_has_changed_is_prepared_again(checkout: Checkout) -> None:
    """Files that came, also by a link to old ones; the results may lie inside the corpus."""
    corpus, old = checkout.folder / "corpus", checkout.folder / "old.wav"
    corpus.mkdir()
    old.touch()

    def prepared() -> bool:
        before = len(checkout.calls("python"))
        command = ("./run.sh", "--recipe", "gmm", "--corpus", "corpus", "--out", "corpus/out")
        done = checkout.run(*command, "--stop-stage", "0", KALDI_ROOT="")
        assert done.returncode == 0, done.stderr
        calls = [call for call in checkout.calls("python")[before:] if call[0].endswith(".py")]
        assert ("corpus has changed" in done.stdout) == (bool(calls) and before > 0)
        return bool(calls)

    assert prepared()
    assert not prepared()
    (corpus / "new.wav").touch()
    assert prepared()
    assert not prepared()
    (corpus / "linked.wav").symlink_to(old)
    assert prepared()
    assert not prepared()


@pytest.mark.slow
def test_copy_of_a_folder_is_complete_by_its_contents(checkout: Checkout) -> None:
    """All of it is newer then, and named otherwise, as in a folder that was renamed; times count
    in the folder itself."""
    command = ("./run.sh", "--recipe", "made", "--stage", "4", "--stop-stage", "6", "--out")
    folder = checkout.folder / "exp/made"
    (folder / "made/seed1").mkdir(parents=True)
    for name, text in {"config.yaml": "model: {layers: 3}", "best.pt": "one"}.items():
        (folder / "made/seed1" / name).write_text(text)

    def stages(out: str) -> int:
        return checkout.run(*command, out).stdout.count(": complete\n")

    assert (stages("exp/made"), stages("exp/made")) == (0, 5)
    copied = shutil.copytree(folder, checkout.folder / "exp/copied", copy_function=shutil.copy)
    assert stages("exp/copied") == 5
    copied = copied.rename(checkout.folder / "exp/renamed")
    assert (stages("exp/renamed"), stages("exp/renamed")) == (5, 5)
    (copied / "made/seed1/best.pt").write_text("another")
    assert stages("exp/renamed") == 0
    again = shutil.copytree(folder, checkout.folder / "exp/again", copy_function=shutil.copy)
    (again / "made/seed1/config.yaml").write_text("model: {layers: 4}")
    assert stages("exp/again") == 0
    (folder / "made/seed1/best.pt").write_text("one")
    assert stages("exp/made") == 0, "a file may stand for others that were made with it"


@pytest.mark.slow
@pytest.mark.parametrize("content", ["", "1\n"])
def test_stage_is_repeated_where_its_check_sums_are_not_whole(
    checkout: Checkout, content: str
) -> None:
    """As where a disk was full, or the script killed, while they were written."""
    command = ("./run.sh", "--recipe", "made", "--stage", "6", "--stop-stage", "6")
    run = checkout.folder / "exp/made/made/seed1"
    run.mkdir(parents=True)
    (run / "config.yaml").write_text("config.yaml")
    assert checkout.run(*command).returncode == 0
    (run / "log/score.sums").write_text(content)
    (run / "config.yaml").write_text("another")
    done = checkout.run(*command)
    assert (done.returncode, done.stdout.count(": complete\n")) == (0, 0), done.stderr
    assert checkout.run(*command).stdout.count(": complete\n") == 1


def test_stage_is_complete_while_its_files_and_command_are_the_same(
    checkout: Checkout, tmp_path: Path
) -> None:
    there, absent = tmp_path / "a file", tmp_path / "absent"
    there.write_text("x")

    def runs(*command: str, files: tuple[Path, ...] = (there, absent)) -> bool:
        script = '. local/stages.sh; stage=0 stop_stage=7 force=; run_stage 3 a "$@"'
        words = (str(tmp_path), *map(str, files), "--", *command)
        done = checkout.run("bash", "-euo", "pipefail", "-c", script, "bash", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout != "a: complete\n"

    command = ("echo", "--on", "two words")
    assert runs(*command)
    written = there.stat().st_mtime_ns
    as_in_version_0_1 = f"echo --on two words {there} 1 {written}\n"
    assert (tmp_path / "log/a.done").read_text() == as_in_version_0_1, "what was complete stays so"
    assert not runs(*command)
    assert runs(*command, "--nj")
    assert runs(*command, "--nj", files=(absent,)), "the file is another's"
    assert (tmp_path / "log/a.done").read_text() == "echo --on two words --nj \n"
    assert not runs(*command, "--nj", files=(absent,))
    absent.touch()
    assert runs(*command, "--nj", files=(absent,))
    assert runs(*command)
    os.utime(there, ns=(written, written + 1))
    assert runs(*command)
    assert not runs(*command)


def test_stage_whose_input_changes_while_it_runs_is_repeated(
    checkout: Checkout, tmp_path: Path
) -> None:
    """Also in a copy, which contents tell, and where the corpus changes under its preparation."""
    corpus, out = tmp_path / "corpus", tmp_path / "out"
    corpus.mkdir()
    (corpus / "text").write_text("x")
    out.mkdir()

    def runs(where: Path) -> bool:
        script = (
            ". local/stages.sh; stage=0 stop_stage=7 force= out=$1; "
            'run_stage 0 prepare "$1" "$2/text" makes "$1/made" -- '
            'bash -c \'[[ -f $1 ]] || echo more >>"$2"; echo >"$1"\' bash "$1/made" "$2/text"'
        )
        words = (str(where), str(corpus))
        done = checkout.run("bash", "-euo", "pipefail", "-c", script, "bash", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout != "prepare: complete\n"

    assert runs(out)
    stamp = out / "log/prepare.done"
    assert has_changed(corpus, stamp.stat().st_mtime_ns, out)
    copied = shutil.copytree(out, tmp_path / "copied", copy_function=shutil.copy)
    assert runs(copied), "contents are those of before"
    assert runs(out)
    assert not has_changed(corpus, stamp.stat().st_mtime_ns, out)
    assert not runs(out)
    assert not runs(copied)


@pytest.mark.slow
def test_complete_stages_are_repeated_only_if_their_files_or_command_changed(
    checkout: Checkout,
) -> None:
    def verbs(*more: str, **changes: str) -> str:
        before = len(checkout.calls("bayes-asr"))
        checkout.run("./run.sh", "--recipe", "made", "--nj", "1", *more, **changes)
        return " ".join(call[0] for call in checkout.calls("bayes-asr")[before:])

    run = checkout.folder / "exp/made/made/seed1"
    everything = "train forward forward decode decode score report"
    assert verbs(FAILING="score") == everything.removesuffix(" report")
    assert verbs() == "train score report"
    assert verbs() == "train report"
    assert verbs("--force") == everything
    assert verbs("--nj", "2") == "train report", "no result depends on it"
    (run / "decode_dev/words.txt").unlink()
    assert verbs("--nj", "2") == "train decode score report"
    (run / "best.pt").write_text("another network")
    assert verbs("--nj", "2") == everything
    assert verbs("--nj", "2") == "train report"
    for text, repeated in {  # what train has recorded
        "model: {layers: 3}": everything,
        "model: {layers: 3}\ndecode: {beam: 9}": "train decode decode score report",
        "model: {layers: 3}\ndecode: {beam: 9}\nscore: {metric: per}": "train score report",
        "model: {layers: 4}\ndecode: {beam: 9}\nscore: {metric: per}": everything,
    }.items():
        (run / "config.yaml").write_text(text)
        assert verbs() == repeated


def test_files_of_a_stage_may_be_both_read_and_written(checkout: Checkout, tmp_path: Path) -> None:
    """Stages that users have written name their files without `makes`."""
    script = (
        ". local/stages.sh; stage=0 stop_stage=7 force= out=$1; "
        'run_stage 5 counts "$1" "$1/counts" -- bash -c \'echo >"$1"\' bash "$1/counts"'
    )
    said = [
        checkout.run("bash", "-euo", "pipefail", "-c", script, "bash", str(tmp_path)).stdout
        for _ in range(2)
    ]
    assert said[0] != "counts: complete\n"
    assert said[1] == "counts: complete\n"


@pytest.mark.slow
def test_stages_are_repeated_where_what_a_set_has_is_mended(checkout: Checkout) -> None:
    """Features go through all stages, a text or a rule is for the score; in a copy likewise."""
    folder, fold = checkout.folder / "exp/made", checkout.folder / "fold.txt"
    run = folder / "made/seed1"
    run.mkdir(parents=True)
    (run / "best.pt").touch()
    fold.write_text("a b\n")
    config = (
        f"data: {{dir: {folder}, dev: {{features: [dev]}}, test: {{features: [test]}}, graph: [g]}}"
        f"\nscore: {{conventions: [fold={fold}]}}\n"
    )
    (run / "config.yaml").write_text(config)
    (folder / "g").mkdir()
    (folder / "g/HCLG.fst").write_text("one")
    for name in ("dev", "test"):
        (folder / name).mkdir()
        (folder / name / "feats.scp").write_text("utt feats.ark:4\n")
        (folder / name / "text").write_text("utt a\n")

    def repeated(out: str = "exp/made") -> list[str]:
        before = len(checkout.calls("bayes-asr"))
        command = ("./run.sh", "--recipe", "made", "--stage", "4", "--stop-stage", "6")
        done = checkout.run(*command, "--out", out)
        assert done.returncode == 0, done.stderr
        calls = checkout.calls("bayes-asr")[before:]
        return [call[0] for call in calls if call[1].endswith("seed1")]

    everything = ["forward", "forward", "decode", "decode", "score"]
    assert repeated() == everything
    assert repeated() == []
    copied = shutil.copytree(folder, checkout.folder / "exp/copied", copy_function=shutil.copy)
    for file in (folder / "test/text", fold):
        file.write_text("b b\n")
        assert repeated() == ["score"]
    (folder / "g/HCLG.fst").write_text("two")
    assert repeated() == ["decode", "decode", "score"]
    for table in ("feats", "cmvn"):
        (folder / "test" / f"{table}.scp").write_text("utt feats.ark:8\n")
        assert repeated() == ["forward", "decode", "score"]
    (copied / "made/seed1/config.yaml").write_text(config.replace(str(folder), str(copied)))
    assert repeated("exp/copied") == ["score"], "where the data are is no setting of the others"
    (copied / "dev/feats.scp").write_text("utt feats.ark:8\n")
    assert repeated("exp/copied") == ["forward", "decode", "score"]


def test_experiment_that_a_run_does_not_read_is_refused(checkout: Checkout) -> None:
    """From stage 4 on a run reads what it was trained on, whatever is named."""
    run, kaldi = checkout.folder / "exp/given/given/seed1", checkout.folder / "kaldi"
    run.mkdir(parents=True)
    for folder in (kaldi, checkout.folder / "another"):
        folder.mkdir()
    (run / "config.yaml").write_text(f"data: {{dir: '{kaldi}'}}\n")
    command = ("./run.sh", "--recipe", "given", "--stage", "4", "--kaldi-dir")
    refused = checkout.run(*command, "another")
    assert refused.returncode == 1
    assert f"seed1 was trained on {kaldi}, which stages 4 to 6 read" in refused.stderr
    assert not checkout.calls("bayes-asr")
    assert checkout.run(*command, "kaldi").returncode == 0


def test_copy_is_not_scored_on_the_data_of_its_original(checkout: Checkout) -> None:
    """Its runs name the data of the original until stage 3 has recorded where they are."""
    original = checkout.folder / "exp/made"
    for folder in (original / "made/seed1", original / "dev"):
        folder.mkdir(parents=True)
    (original / "dev/feats.scp").write_text("utt feats.ark:4\n")
    (original / "made/seed1/config.yaml").write_text(
        f"data: {{dir: '{original}', dev: {{features: [dev]}}}}\n"
    )
    copied = shutil.copytree(original, checkout.folder / "exp/copied")
    command = ("./run.sh", "--recipe", "made", "--stage", "4", "--out")
    refused = checkout.run(*command, "exp/copied")
    assert refused.returncode == 1
    assert f"{copied} has data of its own: " in refused.stderr
    assert f"seed1 was trained on {original}, which stages 4 to 6 read" in refused.stderr
    assert not checkout.calls("bayes-asr")
    assert checkout.run(*command, "exp/made").returncode == 0
    shutil.rmtree(copied / "dev")
    assert checkout.run(*command, "exp/copied").returncode == 0, "the run says where its data are"


def test_what_was_made_of_a_result_goes_where_that_is_made_anew(
    checkout: Checkout, tmp_path: Path
) -> None:
    made_of_it, source = tmp_path / "network", tmp_path / "text"
    source.touch()

    def stands() -> bool:
        made_of_it.mkdir(exist_ok=True)
        script = (
            ". local/stages.sh; stage=0 stop_stage=7 force=; "
            'voids=$3 run_stage 2 align "$1" "$2" makes "$1/ali" -- touch "$1/ali"'
        )
        words = (str(tmp_path), str(source), str(made_of_it))
        done = checkout.run("bash", "-euo", "pipefail", "-c", script, "bash", *words)
        assert done.returncode == 0, done.stderr
        return made_of_it.exists()

    assert not stands()
    assert stands()
    source.write_text("another")
    assert not stands()


@pytest.mark.slow
def test_a_file_that_an_option_names_is_prepared_from_anew(checkout: Checkout) -> None:
    model, config = checkout.folder / "lm.arpa", checkout.folder / "recipes/gmm/config.yaml"
    model.write_text("one")
    config.write_text("recipe: {offers: [corpus], options: [--lm=lm.arpa]}\n")

    def prepared() -> int:
        before = len(checkout.calls("python"))
        command = ("./run.sh", "--recipe", "gmm", "--corpus", "corpus", "--out", "../out")
        assert checkout.run(*command, "--stop-stage", "0", KALDI_ROOT="").returncode == 0
        return sum(call[0].endswith("prepare.py") for call in checkout.calls("python")[before:])

    (checkout.folder / "corpus").mkdir()
    assert (prepared(), prepared()) == (1, 0)
    model.write_text("two")
    assert prepared() == 1
