# shellcheck shell=bash disable=SC2034,SC2154  # run.sh sets $root and reads this; what is set here is used there
# Stages 1 and 2 without Kaldi.
sets=(train dev eval)
oov='<unk>'
# shellcheck source=local/flat_start.sh
. "$root/local/flat_start.sh"
