"""Which files of a folder are its decoding graph."""

from pathlib import Path

from bayes_asr.errors import InputError
from bayes_asr.files import is_there


def graph_files(graph_dir: Path, lm: Path | None = None) -> list[Path]:
    """The files of a graph: HCLG.fst, or HCL.fst and what it is composed with during the search.

    lm: an ARPA file or an FST in place of the G.fst in the folder. InputError where it is given to
    a graph that is composed already.
    """
    composed, apart = (Path(graph_dir) / name for name in ("HCLG.fst", "HCL.fst"))
    if is_there(apart) and (lm or not is_there(composed)):
        return [apart, lm or Path(graph_dir) / "G.fst"]
    if lm:
        raise InputError(
            f"{graph_dir}: has no HCL.fst to compose with {lm}; bayes-asr graph --apart writes it"
        )
    return [composed]
