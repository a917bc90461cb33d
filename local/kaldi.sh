# shellcheck shell=bash
# Finds the user's Kaldi and gives its scripts the folder, the commands and the number of jobs they expect.

# A program of each of Kaldi's folders: where one is missing, that folder was not built.
kaldi_programs=(compute-mfcc-feats gmm-est-fmllr compile-train-graphs fsttablecompose lattice-to-post arpa2fst fstcompile)
kaldi_path_sh='# Written by bayes_asr.'

# source_first FILE: source the FILE of the working directory, as Kaldi's scripts do, else that beside run.sh or that
# which an earlier call has left in $out.
source_first() {
    local folder
    for folder in "$PWD" "${root:?}" "${out:?}"; do
        if [[ -f $folder/$1 ]]; then
            echo "Reading $folder/$1"
            cd "$folder"
            source_freely "./$1"
            cd "$OLDPWD"
            return
        fi
    done
}

# source_freely FILE: source a file that is not written for strict bash.
source_freely() {
    set +eu
    # shellcheck source=/dev/null
    . "$1"
    set -eu
}

# find_kaldi: set $KALDI_ROOT from the environment or by a path.sh, $train_cmd and $decode_cmd from the environment
# or by a cmd.sh; by default jobs run on this machine.
find_kaldi() {
    local scripts
    [[ -n ${KALDI_ROOT:-} ]] || source_first path.sh
    [[ -n ${KALDI_ROOT:-} ]] ||
        fail "Kaldi is needed: set KALDI_ROOT to its folder, or copy the path.sh of your experiments beside run.sh."
    scripts=$KALDI_ROOT/egs/wsj/s5
    [[ -f $scripts/steps/train_sat.sh && -f $scripts/utils/mkgraph.sh ]] ||
        fail "KALDI_ROOT=$KALDI_ROOT: there are no scripts of Kaldi in $scripts/steps and $scripts/utils."
    KALDI_ROOT=$(cd "$KALDI_ROOT" && pwd)
    [[ -n ${train_cmd:-} ]] || source_first cmd.sh
    train_cmd=${train_cmd:-run.pl}
    decode_cmd=${decode_cmd:-$train_cmd}
}

# enter_experiment: go to $out, laid out as Kaldi's scripts expect their working directory.
enter_experiment() {
    local program
    [[ ! $out =~ [[:space:]] ]] ||
        fail "--out $out: Kaldi's scripts cannot work in a folder whose name holds white space; choose another one."
    [[ ! -e $out/path.sh || $(head -n 1 "$out/path.sh") == "$kaldi_path_sh" ]] ||
        fail "$out is an experiment of Kaldi's own, which would be overwritten: choose another --out."
    keep_others_out
    cd "$out"
    ln -sfn "$KALDI_ROOT/egs/wsj/s5/steps" steps
    ln -sfn "$KALDI_ROOT/egs/wsj/s5/utils" utils
    write_path_sh >path.sh
    source_freely ./path.sh
    for program in "${kaldi_programs[@]}"; do
        command -v "$program" >/dev/null ||
            fail "KALDI_ROOT=$KALDI_ROOT: the program $program is neither there nor on the PATH: build Kaldi."
    done
}

# write_path_sh: print what Kaldi's scripts source in their working directory.
write_path_sh() {
    local folder
    echo "$kaldi_path_sh"
    echo "export KALDI_ROOT=${KALDI_ROOT@Q} LC_ALL=C"
    [[ ! -f $KALDI_ROOT/tools/env.sh ]] || echo ". ${KALDI_ROOT@Q}/tools/env.sh"
    for folder in "$KALDI_ROOT"/src/*bin "$KALDI_ROOT/tools/openfst/bin" "$out/utils/parallel" "$out/utils"; do
        echo "PATH=${folder@Q}:\$PATH"
    done
    echo 'export PATH'
}

# made OUTPUT... -- COMMAND...: remove the folders of the outputs, run the command, see that the outputs are there.
made() {
    local outputs=() output
    while [[ $1 != -- ]]; do
        outputs+=("$1")
        rm -rf "${1%/*}"
        shift
    done
    shift
    "$@" || return
    for output in "${outputs[@]}"; do
        if [[ ! -s $output ]]; then
            echo "$1 has ended without an error, but $out/$output is missing or empty"
            return 1
        fi
    done
}

# kaldi SCRIPT ARGUMENT...: a script of Kaldi's, given the command that starts its jobs.
kaldi() {
    local command=$train_cmd
    [[ $1 != */decode* ]] || command=$decode_cmd
    "$1" --cmd "$command" "${@:2}"
}

# in_jobs DATA SCRIPT ARGUMENT...: the same, given the number of jobs too.
in_jobs() {
    local number
    number=$(jobs_for "$@") && kaldi "$2" --nj "$number" "${@:3}"
}

# jobs_for DATA SCRIPT ARGUMENT...: print how many jobs: $nj, but no more than there are speakers, whom Kaldi does
# not split; as many as the model had if its training graphs are to be used.
jobs_for() {
    local speakers
    if [[ " $* " == *' --use-graphs true '* ]]; then
        cat "${*: -2:1}/num_jobs"
        return
    fi
    speakers=$(wc -l <"$1/spk2utt")
    ((${nj:?} <= speakers)) || echo "$1 has $speakers speakers: $speakers jobs instead of $nj" >&2
    echo $((nj < speakers ? nj : speakers))
}
