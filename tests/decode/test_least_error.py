"""Words of least expected error, by `decode.mbr`: decoded, scored, transcribed."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.tones import command

pytest.importorskip("kaldi_native_fbank")
pytest.importorskip("kaldifst")
pytestmark = pytest.mark.slow


def test_words_of_least_error_are_those_of_rescore(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At every weight; `score` chooses among them, and sound files get the same words."""
    root, again = run.parent, shutil.copytree(run, tmp_path / "run")
    config = (again / "config.yaml").read_text()
    assert "  mbr: false\n" in config
    (again / "config.yaml").write_text(config.replace("  mbr: false\n", "  mbr: true\n"))
    for part in ("dev", "test"):
        command("decode", again, "--on", part)
    decoded, rescored = again / "decode_dev", tmp_path / "rescored"
    assert json.loads((decoded / "decode.json").read_text())["mbr"] is True
    names = [path.name for path in sorted(decoded.glob("words.lmwt*"))]
    weights = [name.split("lmwt")[1].partition(".wip")[0] for name in names]
    given = ("--lattices", decoded / "lat.1.gz", "--graph", root / "exp" / "graph", "--mbr")
    command("rescore", *given, "--lmwt", *weights, "--out", rescored)
    for name in names:
        least = rescored / name.replace("words", "mbr")
        assert (decoded / name).read_bytes() == least.read_bytes()

    capsys.readouterr()
    command("score", again)
    assert "other settings" not in capsys.readouterr().err
    score = json.loads((again / "score_dev.json").read_text())[0]
    files = [root / "data" / "dev" / f"s0-{number}.wav" for number in range(4)]
    command("transcribe", again, *files, "--one-speaker")
    printed = capsys.readouterr()
    assert "other settings" not in printed.err
    chosen = decoded / f"words.lmwt{score['lm_weight']:g}.wip{score['insertion_penalty']:.1f}.txt"
    heard = [line.split(": ")[1] for line in printed.out.splitlines() if line.startswith(str(root))]
    assert heard == [line.split(None, 1)[1] for line in chosen.read_text().splitlines()[:4]]
    # A run that was decoded otherwise is named.
    command("decode", run, "--on", "test", "--mbr", "--out", tmp_path / "other")
    shutil.copytree(tmp_path / "other", again / "decode_test", dirs_exist_ok=True)
    (again / "config.yaml").write_text(config)
    command("score", again)
    said = capsys.readouterr().err
    assert "dev was decoded with other settings than the run's (mbr True and False)" in said
