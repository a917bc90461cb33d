"""The data directories of the sets of a configuration, and the features in them."""

from collections.abc import Sequence
from pathlib import Path

from bayes_asr.config.schema import Config
from bayes_asr.data.corpus.labelled import Features
from bayes_asr.data.directories import locate_all
from bayes_asr.data.features.front_end import FEATURES, FrontEnd
from bayes_asr.kaldi_io.byte_reader import OpenPipe
from bayes_asr.kaldi_io.data_dir import combine_data_dirs, read_data_dir
from bayes_asr.kaldi_io.text import DataDir


def data_dir(config: Config, name: str, open_pipe: OpenPipe | None = None) -> DataDir:
    """Read the data directory of the set `name` (train, dev or test), or several as one."""
    return read_data_dirs(config, locate_all(config.data, name, "features"), open_pipe)


def stream_dirs(config: Config, name: str, open_pipe: OpenPipe | None = None) -> dict[str, DataDir]:
    """The data directories of all streams of a set, by name, the features first."""
    further = {
        stream: read_data_dirs(config, locate_all(config.data, name, "streams", stream), open_pipe)
        for stream in config.data.train.stream_names
    }
    return {FEATURES: data_dir(config, name, open_pipe), **further}


def read_data_dirs(config: Config, paths: Sequence[Path], open_pipe: OpenPipe | None) -> DataDir:
    """Read data directories as one; InputError where they do not go together."""
    moves = config.data.moves
    return combine_data_dirs(
        [read_data_dir(path, open_pipe=open_pipe, moves=moves) for path in paths]
    )


def features_of(
    data: DataDir, config: Config, stream: str = FEATURES, open_pipe: OpenPipe | None = None
) -> Features:
    """The features of a data directory, prepared as the configuration says of a stream."""
    options = config.features if stream == FEATURES else config.streams[stream]
    return Features(data, FrontEnd(**vars(options)), open_pipe=open_pipe)
