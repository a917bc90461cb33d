# shellcheck shell=bash disable=SC2034  # read by local/kaldi_gmm.sh
# As in Kaldi's egs/librispeech/s5 and, of a few hours, egs/mini_librispeech/s5; phones depend on their position in the word.
# Each model learns from all of train; leaves and Gaussians of the last one are those of 5, 100, 460 or 960 hours.
lang=()
mono_utterances=2000 mono=(--boost-silence 1.25) mono_ali=(steps/align_si.sh --boost-silence 1.25)
tri1=(--boost-silence 1.25 2000 10000)
tri3=(7000 150000)
spoken=$(wc -l 2>/dev/null <"${out:?}/data/train/utt2spk" || echo 0)
((spoken > 200000)) || tri3=(5000 100000)
((spoken > 60000)) || tri3=(4200 40000)
((spoken > 5000)) || tri3=(2500 15000)
