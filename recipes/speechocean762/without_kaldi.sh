# shellcheck shell=bash
# Stages 1 and 2 with --features mfcc, as those of mboshi: phones and words, words aligned.
# shellcheck source=recipes/mboshi/without_kaldi.sh
. "${root:?}/recipes/mboshi/without_kaldi.sh"
