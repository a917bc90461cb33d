"""Alignment by a network of two streams."""

from pathlib import Path

import pytest

from bayes_asr.cli import main
from bayes_asr.data.targets.alignments import Alignments
from bayes_asr.kaldi_io.ark import iter_matrices
from tests.decode.align.test_data_dir import flat
from tests.support.places import CONF
from tests.support.small_corpus import settings, write_data_dir
from tests.support.spoken_corpus import write_spoken_corpus

STREAMS = [f"data.{name}.streams.half=half/{name}" for name in ("train", "dev")]


@pytest.mark.slow
def test_directories_of_streams_give_what_the_set_gives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_spoken_corpus(tmp_path, {"train": 6, "dev": 3})
    assert flat(root, "train") == 0
    assert flat(root, "dev", f"--model={root}/exp/ali/final.mdl") == 0
    for name in ("train", "dev"):  # every second frame again, as a stream
        features = dict(iter_matrices(root / "data" / name / "feats.scp"))
        write_data_dir(root / "half" / name, {utt: x[::2] for utt, x in features.items()})
    more = settings(root, *STREAMS, "streams.half.subsampling=2")
    assert main(["train", str(CONF / "base.yaml"), *more, f"--out={root}/run"]) == 0
    lang = f"--lang={root}/dict"
    data = f"--data={root}/data/dev"
    assert main(["align", f"{root}/run", "--on=dev", lang, f"--out={root}/on"]) == 0
    given = (data, f"--stream=half={root}/half/dev", lang, f"--out={root}/given")
    assert main(["align", f"{root}/run", *given]) == 0
    wanted, found = (dict(Alignments(root / name).items()) for name in ("on", "given"))
    assert found.keys() == wanted.keys()
    assert len(found) == 3
    for utt, ids in wanted.items():
        assert (found[utt] == ids).all()
    capsys.readouterr()
    assert main(["align", f"{root}/run", data, lang, f"--out={root}/none"]) == 1
    assert "give --stream half=DIR" in capsys.readouterr().err
    asked = ["align", "--flat", data, lang, f"--stream=half={root}/half/dev", f"--out={root}/none"]
    assert main(asked) == 1
    assert "--stream: of no use with --flat" in capsys.readouterr().err
