"""Whether a corpus has changed since it was prepared."""

import os
import time
from pathlib import Path

from bayes_asr.recipe.stages.preparation import has_changed


def test_corpus_has_changed_where_anything_came_or_changed(tmp_path: Path) -> None:
    corpus, out = tmp_path / "corpus", tmp_path / "corpus" / "out"
    (corpus / "below").mkdir(parents=True)
    (corpus / "below" / "round").symlink_to(corpus)
    (corpus / "below" / "nowhere").symlink_to("nowhere")
    (tmp_path / "elsewhere").mkdir()
    (corpus / "linked").symlink_to(tmp_path / "elsewhere")
    out.mkdir()
    stamp = out / "prepare.done"
    assert not has_changed(corpus, stamp, out), "it was never prepared"

    def changed() -> bool:
        found = has_changed(corpus, stamp, out)
        latest = max(os.stat(path).st_ctime_ns for path in (corpus, *changing))
        os.utime(stamp, ns=(latest, latest))
        time.sleep(0.02)  # the clock of files ticks slowly
        return found

    changing = [corpus / "below", tmp_path / "elsewhere"]
    stamp.touch()
    changed()
    assert not changed()
    (out / "result").touch()
    assert not changed()
    for place in changing:
        (place / "new").touch()
        assert changed()
        assert not changed()
    (corpus / "below" / "new").chmod(0o600)
    assert has_changed(corpus, stamp, out)
