# shellcheck shell=bash
# Read by local/kaldi_gmm.sh, whose numbers suit: the trees stop growing by themselves where there is little speech.
