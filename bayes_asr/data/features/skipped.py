"""Utterances that are skipped: named, counted, and held against a limit."""

from collections.abc import Mapping

from bayes_asr.base.errors import InputError, least_share, name_some
from bayes_asr.base.installed import recipe_script
from bayes_asr.base.log import LOGGER
from bayes_asr.data.features.front_end import describe_stream
from bayes_asr.kaldi_io.sorted_table import split_table
from bayes_asr.kaldi_io.text import DataDir


def report_lacking(
    directories: Mapping[str, DataDir], limit: float, key: str = "data.max_skipped"
) -> set[str]:
    """The utterances of a set that a stream has no features of, as they have no frame: nothing
    reads them, all their words are deletions. Named and limited by `report_skipped`.

    directories: of the streams, by name, the features first.
    """
    utt2spk = next(iter(directories.values())).utt2spk
    lacking: set[str] = set()
    for stream, data in directories.items():
        _, missing = split_table(utt2spk, data.feats or {})
        report_skipped(
            f"no {describe_stream(stream)} in {data.path}", missing, len(utt2spk), limit, key
        )
        lacking.update(missing)
    return lacking


def _advise_limit(key: str, share: float) -> str:
    """Words of a command line that let `share` of the utterances be skipped; those of run.sh, which
    has no option of its own for it, where run.sh calls the verb.

    key: a key of the configuration, or the option `--max-skipped` of a verb.
    """
    script = recipe_script()
    if not key.startswith("--"):
        return f"--set {key}={share:g}"
    if not script:
        return f"{key} {share:g}"
    return f"{script} --set data.max_skipped={share:g}"


def report_skipped(
    why: str,
    skipped: list[str],
    total: int,
    limit: float,
    key: str = "data.max_skipped",
    advice: str = "",
) -> None:
    """Name and count what is skipped of `total` utterances; InputError if it is above `limit`.

    key: what sets the limit, a key of the configuration or an option, for the message, which ends
    with the advice.
    """
    if not skipped:
        return
    message = f"{why} for {len(skipped)} of {total} utterances: {name_some(skipped)}"
    check_limit(message, len(skipped), total, limit, key, advice)
    LOGGER.warning("%s; they are skipped", message)


def check_limit(
    message: str, skipped: int, total: int, limit: float, key: str, advice: str = ""
) -> None:
    """InputError with the message where so many of `total` utterances are more than `limit`."""
    # A quotient: 0.29 * 100 is less than 29, which the limit 0.29 allows.
    if skipped / total > limit:
        raise InputError(
            f"{message}; more than {key} = {limit:g} allows: mend them, or skip them by"
            f" {_advise_limit(key, least_share(skipped, total))}{advice}"
        )
