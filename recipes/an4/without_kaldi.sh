# shellcheck shell=bash
# Stages 1 and 2 with --features mfcc. Sphinx's cepstra, where there is no audio, are the features already.
sets=(train dev test)
oov='<UNK>'
# shellcheck source=local/flat_start.sh
. "${root:?}/local/flat_start.sh"
