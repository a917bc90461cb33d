# shellcheck shell=bash disable=SC2034  # the scripts that read this use what it sets
# The steps from prepared data to GMMs, alignments and fMLLR features, for local/kaldi_gmm.sh and local/gmm.sh, which
# differ in how they do a step: for a step of some KIND they define a function way_KIND, which sets $command. Without
# a command there is nothing to do.

# What a recipe's kaldi.sh may set otherwise: arrays hold options and arguments of Kaldi's script of that step.
sets=(train dev test)
oov='<UNK>' lang=(--position-dependent-phones false)
mono_utterances=0 mono=() mono_ali=(steps/align_si.sh)
tri1=(2500 15000) tri1_ali=(steps/align_si.sh)
tri2=(2500 15000) tri2_ali=(steps/align_si.sh --use-graphs true)
tri3=(2500 15000) tri3_ali=(steps/align_fmllr.sh) decode=()
wip=(0.0 0.5 1.0) # insertion penalties, of which that is taken with which dev has the fewest errors; not Kaldi's

# What the script sets: where MFCC and their statistics lie beside the text that is aligned, what stage 0 makes, which
# models are decoded, for which tasks, of which one is scored, how stamps begin, and whether outputs are looked for after
# a step.
cepstra='' language_makes=() decoded=() tried=('') scored='' stamps='' checked=''

# read_gmm_options OPTION...: check the options of the script, and read the recipe's settings. $aligned is the dictionary
# below data/local that transcripts are aligned by: where a recipe prepares dict_align, that, and text_words are aligned.
# $tasks has a suffix for each dictionary and language model that graphs are made of: none, and _words if there are
# dict_words and lm_words.arpa.
read_gmm_options() {
    recipe='' out='' dim=40 nj=$(getconf _NPROCESSORS_ONLN) stage=0 stop_stage=8 force=''
    parse_options "$@"
    [[ -n $recipe && -n $out ]] || refuse "--recipe and --out are needed (--help tells more)"
    ((dim > 0 && dim <= 91)) || refuse "--dim $dim: LDA has 7 frames of 13 cepstra to choose from, so 1 to 91"
    ((nj > 0)) || refuse "--nj $nj: at least one is needed"
    [[ $recipe == */* ]] || recipe=${root:?}/recipes/$recipe
    [[ -f $recipe/kaldi.sh ]] || refuse "--recipe $recipe: there is no $recipe/kaldi.sh"
    [[ -d $out/data ]] || refuse "--out $out: there is no $out/data; prepare the recipe's data first"
    out=$(cd "$out" && pwd)
    aligned=dict tasks=('')
    [[ ! -d $out/data/local/dict_align ]] || aligned=dict_align
    [[ ! -d $out/data/local/dict_words ]] || tasks+=(_words)
    # shellcheck source=/dev/null
    . "$recipe/kaldi.sh"
}

# keep_others_out: refuse $out while another script, or a job that one has left running here, is at work there.
# A system without flock goes on without.
keep_others_out() {
    local lock
    command -v flock >/dev/null || return 0
    exec {lock}>>"$out/.kaldi_gmm.lock" # open, and so locked, as long as this script and what it starts
    flock --nonblock "$lock" ||
        fail "$out: another ${script:?} is at work in this folder: wait until it ends, or choose another --out."
}

# step STAGE NAME INPUT... makes OUTPUT... -- KIND ARGUMENT...: a stage that is complete while its inputs, outputs and
# command are what they were when it last succeeded.
step() {
    local number=$1 name=$2 inputs=() outputs=() command=()
    shift 2
    while [[ $1 != makes ]]; do
        inputs+=("$1") && shift
    done
    shift
    while [[ $1 != -- ]]; do
        outputs+=("$1") && shift
    done
    "way_$2" "${@:3}"
    ((${#command[@]})) || return 0
    [[ -z $checked ]] || command=(made "${outputs[@]}" -- "${command[@]}")
    run_stage "$number" "${stamps:?}$name" "$out" "${inputs[@]}" "${outputs[@]}" -- "${command[@]}"
}

# checksum FILE...: of those that exist: what is written anew with the same content has not changed.
checksum() {
    cat "$@" 2>/dev/null | cksum | tr -d '\n' || true
}

# alignment SET: the folder of its alignments.
alignment() {
    [[ $1 == train ]] && echo exp/tri3_ali || echo "exp/tri3_ali_$1"
}

# train_gmms: all steps. A function, since bash reads a script while it runs: it may be updated meanwhile.
train_gmms() {
    local set source ali transforms model name task train=$cepstra/train first=$cepstra/train
    step 0 lang makes "${language_makes[@]}" -- \
        language "$(checksum data/local/dict{,_align,_words}/{lexicon,{,non}silence_phones}.txt data/local/lm{,_words}.arpa)"
    for set in "${sets[@]}"; do
        source=feats.scp
        [[ ! -f data/$set/wav.scp ]] || source=wav.scp
        step 1 "mfcc_$set" makes "$cepstra/$set"/{feats,cmvn}.scp -- \
            mfcc "$set" "$(checksum "data/$set"/{text{,_words},utt2spk,segments,$source})"
    done

    if ((mono_utterances && mono_utterances < $(wc -l <data/train/utt2spk))); then
        first=$cepstra/train_mono
        step 2 subset "$train/feats.scp" makes "$first/feats.scp" -- subset "$train" "$mono_utterances" "$first"
    fi
    step 2 mono "$first/feats.scp" data/lang/L.fst makes exp/mono/{final.mdl,tree} -- \
        mono "$first" data/lang exp/mono
    step 3 mono_ali "$train/feats.scp" exp/mono/final.mdl makes exp/mono_ali/ali.1.gz -- \
        align "$train" data/lang exp/mono exp/mono_ali
    step 3 tri1 exp/mono_ali/ali.1.gz makes exp/tri1/{final.mdl,tree} -- \
        deltas "$train" data/lang exp/mono_ali exp/tri1
    step 4 tri1_ali exp/tri1/final.mdl makes exp/tri1_ali/ali.1.gz -- \
        align "$train" data/lang exp/tri1 exp/tri1_ali
    step 4 tri2 exp/tri1_ali/ali.1.gz makes exp/tri2/{final.mdl,final.mat,tree} -- \
        lda_mllt "$train" data/lang exp/tri1_ali exp/tri2
    step 5 tri2_ali exp/tri2/final.mdl makes exp/tri2_ali/ali.1.gz -- \
        align "$train" data/lang exp/tri2 exp/tri2_ali
    step 5 tri3 exp/tri2_ali/ali.1.gz makes exp/tri3/{final.mdl,final.alimdl,final.mat,tree} -- \
        sat "$train" data/lang exp/tri2_ali exp/tri3
    for model in "${decoded[@]}"; do
        name=_$model
        [[ $model != tri3 ]] || name=''
        for task in "${tasks[@]}"; do
            step 6 "graph$name$task" "exp/$model/final.mdl" "${language_makes[@]}" \
                makes "exp/$model/graph$task"/{HCLG.fst,words.txt} -- graph "exp/$model" "$task"
        done
        for task in "${tried[@]}"; do
            for set in "${sets[@]:1}"; do
                step 6 "decode$name${task}_$set" "$cepstra/$set/feats.scp" "exp/$model/graph$task/HCLG.fst" \
                    makes "exp/$model/decode${task}_$set"/{trans.1,lat.1.gz} -- \
                    decode "$cepstra/$set" "exp/$model/graph$task" "exp/$model" "exp/$model/decode${task}_$set"
            done
        done
        step 6 "score$name$scored" "exp/$model/decode${scored}_${sets[1]}/lat.1.gz" \
            "exp/$model/decode${scored}_${sets[2]}/lat.1.gz" makes "gmm/$model$scored"/score_{dev,test}.json -- \
            score "$model" "$scored" "$(checksum "data/${sets[1]}"/{text{,_words},stm,glm} "data/${sets[2]}"/{text{,_words},stm,glm})"
    done
    for set in "${sets[@]}"; do
        ali=$(alignment "$set")
        step 7 "ali_$set" "$cepstra/$set/feats.scp" exp/tri3/final.mdl \
            makes "$ali"/{ali.1.gz,trans.1,final.mdl,tree} -- align "$cepstra/$set" data/lang exp/tri3 "$ali"
    done
    for set in "${sets[@]}"; do
        transforms=exp/tri3/decode_$set
        [[ $set != train ]] || transforms=$(alignment train)
        step 8 "fmllr_$set" "$transforms/trans.1" makes "data-fmllr-tri3/$set"/{feats,cmvn}.scp -- \
            fmllr "$set" "$transforms"
    done
}
