# shellcheck shell=bash disable=SC2034  # read by local/kaldi_gmm.sh
# The trees stop growing by themselves where there is little speech.
dither=1 # as Kaldi's: a folder may hold digital silence, of which GMMs alone learn nothing
