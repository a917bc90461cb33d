# shellcheck shell=bash
# Stages 1 and 2 with --features mfcc.
sets=(train dev test)
oov='<UNK>' dither=1
# shellcheck source=local/flat_start.sh
. "${root:?}/local/flat_start.sh"
