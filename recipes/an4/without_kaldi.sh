# shellcheck shell=bash disable=SC2034,SC2154  # run.sh sets $root and reads this; what is set here is used there
# Stages 1 and 2 without Kaldi. Sphinx's cepstra, where there is no audio, are the features already.
sets=(train dev test)
oov='<UNK>'
# shellcheck source=local/flat_start.sh
. "$root/local/flat_start.sh"
