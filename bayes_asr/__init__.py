"""Speech recognition recipes with Bayesian recurrent units on Kaldi features and alignments."""

from bayes_asr.base.version import __version__ as __version__

TYPE_CHECKING = False  # typing's takes long to load, before Ctrl-C is looked after
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bayes_asr.decode.forward.average import AveragedNetwork
    from bayes_asr.decode.forward.log_likelihoods import LogLikelihoods
    from bayes_asr.decode.transcribe import Streams, Transcript


def load(
    run: "str | Path",
    *,
    layer: str | None = None,
    head: str | None = None,
    kind: str = "log-likelihoods",
) -> "LogLikelihoods | AveragedNetwork":
    """Load a trained run as a torch module: features [T, F] -> log-likelihoods [T, P].

    Equal to what `bayes-asr forward` writes for the same features. layer: gives the outputs [T, H]
    of that layer instead; head: that head instead of the first; kind: its `log-likelihoods`,
    `log-posteriors` or `posteriors`. InputError if `run` is none.
    """
    from bayes_asr.decode.forward.interface import Output
    from bayes_asr.decode.forward.log_likelihoods import load_any

    return load_any(run, Output(layer, head, kind))


def features(
    run: "str | Path", file: "str | Path", *, channel: int | None = None
) -> "tuple[Streams, Streams]":
    """Features [T, F] of a sound file and CMVN statistics [2, F+1] of it, both by stream.

    Made as those that `run` was trained on, so that `load(run)(*features(run, file))` are its
    log-likelihoods. channel: of several, counted from 0. InputError where the features of a run
    are not made of sound here, or the file holds none.
    """
    from pathlib import Path

    from bayes_asr.decode.transcribe import compute_features

    return compute_features(Path(run), Path(file), channel)


def transcribe(
    run: "str | Path", files: "Sequence[str | Path]", *, one_speaker: bool = False
) -> "list[Transcript]":
    """Words of sound files with times and confidences, as `bayes-asr transcribe`.

    one_speaker: all files are of one, whose statistics normalise them. InputError that names the
    files in which nothing can be heard.
    """
    from pathlib import Path

    from bayes_asr.base.errors import InputError
    from bayes_asr.decode.transcribe import transcribe as recognise

    transcripts, refused = recognise(Path(run), [*map(Path, files)], one_speaker=one_speaker)
    if refused:
        raise InputError("\n".join(refused))
    return transcripts
