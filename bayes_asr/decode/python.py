"""Functions for Python programs, which `bayes_asr` has by the same names."""

from collections.abc import Sequence
from pathlib import Path

from bayes_asr.base.errors import InputError
from bayes_asr.decode.forward.average import AveragedNetwork
from bayes_asr.decode.forward.interface import Output, Streams
from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods, load_any
from bayes_asr.decode.packed import unpacked
from bayes_asr.decode.transcribe import Transcript, compute_features
from bayes_asr.decode.transcribe import transcribe as transcribe_files


def load(
    run: str | Path,
    *,
    layer: str | None = None,
    head: str | None = None,
    kind: str | None = None,
) -> LogLikelihoods | AveragedNetwork:
    """Load a trained run as a torch module: features [T, F] -> log-likelihoods [T, P].

    Equal to what `bayes-asr forward` writes for the same features. layer: gives the outputs [T, H]
    of that layer instead; head: that head instead of the first; kind: its `log-likelihoods`,
    `log-posteriors` or `posteriors`, or the `outputs` of one that learnt real numbers, which has
    nothing else. InputError if `run` is none.
    """
    with unpacked(Path(run)) as directory:
        return load_any(directory, Output(layer, head, kind))


def features(
    run: str | Path, file: str | Path, *, channel: int | None = None
) -> tuple[Streams, Streams]:
    """Features [T, F] of a sound file and CMVN statistics [2, F+1] of it, both by stream.

    Made as those that `run` was trained on, so that `load(run)(*features(run, file))` are its
    log-likelihoods. channel: of several, counted from 0. InputError where the features of a run
    are not made of sound here, or the file holds none.
    """
    with unpacked(Path(run)) as directory:
        return compute_features(directory, Path(file), channel)


def transcribe(
    run: str | Path, files: str | Path | Sequence[str | Path], *, one_speaker: bool = False
) -> list[Transcript]:
    """Words of sound files, or of one, with times and confidences, as `bayes-asr transcribe`.

    one_speaker: all files are of one, whose statistics and transform they share. InputError that
    names the files in which nothing can be heard.
    """
    names = [files] if isinstance(files, str | Path) else files
    with unpacked(Path(run)) as directory:
        results = [*transcribe_files(directory, [*map(Path, names)], one_speaker=one_speaker)]
    if refused := [str(result) for result in results if isinstance(result, InputError)]:
        raise InputError("; ".join(refused))
    return [result for result in results if isinstance(result, Transcript)]
