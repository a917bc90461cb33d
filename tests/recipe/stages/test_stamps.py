"""Which stages are complete, and whether a corpus has changed since it was prepared."""

import os
import time
from pathlib import Path

from bayes_asr.recipe.stages.stamps import has_changed, is_complete, write_stamp


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


def test_stage_is_complete_while_its_files_and_command_are_the_same(tmp_path: Path) -> None:
    stamp, there, absent = tmp_path / "log" / "a.done", tmp_path / "a file", tmp_path / "absent"
    there.write_text("x")
    files, command = [str(there), str(absent)], ["decode", "--on", "two words"]
    assert not is_complete(stamp, files, command)
    write_stamp(stamp, files, command)
    written = there.stat().st_mtime_ns
    as_in_version_0_1 = f"decode --on two words {there} 1 {written}\n"
    assert stamp.read_text() == as_in_version_0_1, "what was complete stays so"
    assert is_complete(stamp, files, command)
    assert not is_complete(stamp, files, [*command, "--nj"])
    assert not is_complete(stamp, files[1:], command)
    absent.touch()
    assert not is_complete(stamp, files, command)
    absent.unlink()
    os.utime(there, ns=(written, written + 1))
    assert not is_complete(stamp, files, command)
