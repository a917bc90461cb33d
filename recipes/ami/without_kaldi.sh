# shellcheck shell=bash
# Stages 1 and 2 with --features mfcc.
sets=(train dev eval)
oov='<unk>'
# shellcheck source=local/flat_start.sh
. "${root:?}/local/flat_start.sh"
