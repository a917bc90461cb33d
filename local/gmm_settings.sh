# shellcheck shell=bash disable=SC2034  # the scripts that read this use what it sets
# Settings of the GMMs, for local/gmm.sh and local/kaldi_gmm.sh, which read this when they have their options.

[[ -n ${recipe:-} && -n ${out:-} ]] || refuse "--recipe and --out are needed (--help tells more)"
((${dim:?} > 0 && dim <= 91)) || refuse "--dim $dim: LDA has 7 frames of 13 cepstra to choose from, so 1 to 91"
((${nj:?} > 0)) || refuse "--nj $nj: at least one is needed"
[[ $recipe == */* ]] || recipe=${root:?}/recipes/$recipe
[[ -f $recipe/kaldi.sh ]] || refuse "--recipe $recipe: there is no $recipe/kaldi.sh"
[[ -d $out/data ]] || refuse "--out $out: there is no $out/data; prepare the recipe's data first"
out=$(cd "$out" && pwd)

# What a recipe's kaldi.sh may set otherwise: arrays hold options and arguments of Kaldi's script of that step.
sets=(train dev test)
oov='<UNK>' lang=(--position-dependent-phones false)
dither='' # noise of our features, in steps of 16-bit samples: none; Kaldi's script adds noise of 1, other in each run
mono_utterances=0 mono=() mono_ali=(steps/align_si.sh)
tri1=(2500 15000) tri1_ali=(steps/align_si.sh)
tri2=(2500 15000) tri2_ali=(steps/align_si.sh --use-graphs true)
tri3=(2500 15000) tri3_ali=(steps/align_fmllr.sh) decode=()
wip=(0.0 0.5 1.0) # insertion penalties, of which that is taken with which dev has the fewest errors; not Kaldi's
# shellcheck source=/dev/null
. "$recipe/kaldi.sh"

# The dictionary below data/local that transcripts are aligned by: where a recipe prepares dict_align, that, and text_words
# are aligned. Each task is a suffix of a dictionary and a language model that graphs are made of.
aligned=dict tasks=('')
[[ ! -d $out/data/local/dict_align ]] || aligned=dict_align
[[ ! -d $out/data/local/dict_words ]] || tasks+=(_words)

# keep_others_out: refuse $out while another script, or a job that one has left running here, is at work there.
# A system without flock goes on without.
keep_others_out() {
    local lock
    command -v flock >/dev/null || return 0
    exec {lock}>>"$out/.kaldi_gmm.lock" # open, and so locked, as long as this script and what it starts
    flock --nonblock "$lock" ||
        fail "$out: another ${script:?} is at work in this folder: wait until it ends, or choose another --out."
}

# checksum FILE...: of those that exist: what is written anew with the same content has not changed.
checksum() {
    cat "$@" 2>/dev/null | cksum | tr -d '\n' || true
}

# language_checksum: of what the lang folders are made of, beside what forget_changed_dictionary looks at.
language_checksum() {
    checksum data/local/dict{,_align,_words}/{lexicon,{,non}silence_phones}.txt data/local/lm{,_words}.arpa
}

# forget_changed_dictionary STAMP: remove the stamp of the lang folders where other files of the dictionaries than those of
# their checksum have changed since it was written. In folders of earlier versions they count as they are.
forget_changed_dictionary() {
    local known=${1%.done}.dict now
    now=$(checksum data/local/dict{,_align,_words}/{lexiconp,extra_questions,optional_silence,word_boundary}.txt)
    [[ ! -f $1 || ! -f $known || $now == "$(<"$known")" ]] || rm "$1"
    mkdir -p "${known%/*}"
    printf '%s\n' "$now" >"$known"
}

# data_checksum SET: of what its MFCC are made of.
data_checksum() {
    local source=feats.scp
    [[ ! -f data/$1/wav.scp ]] || source=wav.scp
    checksum "data/$1"/{text{,_words},utt2spk,segments,$source}
}
