# shellcheck shell=bash
# shellcheck disable=SC2154,SC2034  # run.sh sets $root and its options, and uses what is set here
# Which recipe, and how one stage of it is run.

# choose_recipe: set $recipe_dir and $name; make $out and $kaldi_dir absolute.
choose_recipe() {
    local known
    recipe_dir=$recipe
    [[ $recipe == */* ]] || recipe_dir=$root/recipes/$recipe
    if [[ ! -f $recipe_dir/config.yaml ]]; then
        known=$(cd "$root/recipes" && echo */)
        refuse "--recipe $recipe: there is no $recipe_dir/config.yaml (known recipes: ${known//\//})"
    fi
    name=$(basename "$recipe_dir")
    out=${out:-$root/exp/$name}
    [[ $out == /* ]] || out=$PWD/$out
    [[ ${kaldi_dir:-/} == /* ]] || kaldi_dir=$PWD/$kaldi_dir
}

# choose_systems: set $systems, which names the folders of runs, and $compared, what the report is told. The systems
# of an experiment are its files, their names followed by $size where a configuration is put on top of all.
choose_systems() {
    local known
    size=''
    ((${#config[@]} == 0)) || size=$(basename "${config[-1]}" .yaml)
    systems=("${size:-$name}")
    compared=("$out")
    [[ -n $experiment ]] || return 0
    [[ $experiment == */* ]] || experiment=$root/conf/experiments/$experiment
    systems=("$experiment"/*.yaml)
    if [[ ! -f ${systems[0]} ]]; then
        known=$(cd "$root/conf/experiments" && echo */)
        refuse "--experiment: there are no configurations in $experiment (known experiments: ${known//\//})"
    fi
    size=${size:+-$size}
    systems=("${systems[@]##*/}")
    systems=("${systems[@]/%.yaml/"$size"}")
    compared=("${systems[@]/#/"$out/"}" --out "$out/report_${experiment##*/}$size")
}

# prepares_with OPTION: succeeds if the recipe's preparation takes this option.
prepares_with() {
    grep -qs -- "\"$1\"" "$recipe_dir/prepare.py"
}

# has_kaldi: succeeds if stages 1 and 2 are Kaldi's: it is named, or has been here before.
has_kaldi() {
    [[ -f $recipe_dir/kaldi.sh ]] && [[ -n ${KALDI_ROOT:-} || -f path.sh || -f $root/path.sh || -d $out/data-fmllr-tri3 ]]
}

# check_options: what this recipe, or this version, has no use for is refused, never ignored.
check_options() {
    local file
    ((seeds > 0)) || refuse "--seeds $seeds: at least one is needed"
    ((nj > 0)) || refuse "--nj $nj: at least one is needed"
    [[ $nproc != 0 ]] || refuse "--nproc $nproc: at least one is needed"
    ((stage <= stop_stage && stage <= 7)) || refuse "--stage $stage --stop-stage $stop_stage: no stage of 0 to 7 is between them"
    [[ -z $corpus || -z $kaldi_dir ]] || refuse "--corpus and --kaldi-dir exclude each other"
    [[ -z $corpus || -d $corpus ]] || refuse "--corpus $corpus: there is no such folder"
    [[ -z $corpus ]] || prepares_with --corpus ||
        refuse "--corpus $corpus: preparing a corpus for the recipe $name is not available"
    [[ -z $dim || -z $kaldi_dir ]] || refuse "--dim and --kaldi-dir exclude each other"
    [[ -z $dim ]] || prepares_with --dim || has_kaldi ||
        refuse "--dim $dim: choosing the feature dimension is not available for the recipe $name without Kaldi"
    [[ -n $kaldi_dir || -f $recipe_dir/prepare.py ]] ||
        refuse "the recipe $name starts from the data and exp folders of a Kaldi experiment: name it by --kaldi-dir"
    [[ -n $kaldi_dir || -n $corpus || $stage -gt 0 ]] || ! prepares_with --corpus ||
        refuse "the recipe $name needs its corpus, or a Kaldi experiment: name it by --corpus or --kaldi-dir"
    [[ -z $kaldi_dir || -d $kaldi_dir ]] || refuse "--kaldi-dir $kaldi_dir: there is no such folder"
    [[ " ${set[*]}" != *' seed='* ]] || refuse "--set seed: the seeds are chosen by --seeds N"
    ((stage <= 3 || ${#set[@]} == 0)) ||
        refuse "--set ${set[0]}: a run takes its configuration from stage 3, so start there (complete stages are quick)"
    for file in "${config[@]}"; do
        [[ -f $file ]] || refuse "--config $file: there is no such file"
    done
}

# check_settings: refuse what is wrong in a configuration or in --set before any stage has begun.
check_settings() {
    ((${#config[@]} + ${#set[@]} == 0)) ||
        bayes-asr config "${configuration[@]}" "${config[@]}" "${set[@]/#/--set=}" >/dev/null
}

# state FILE...: size and time of those that exist, to see whether they were written since.
state() {
    python -c 'import os, sys
for file in filter(os.path.exists, sys.argv[1:]):
    print(file, os.stat(file).st_size, os.stat(file).st_mtime_ns)' "$@"
}

# run_logged LOG COMMAND...: run a command, adding what it prints to LOG. It runs beside this shell, which can so pass
# on that it is to end, and waits until the command has saved what it will. SIGINT, which bash lets such commands
# ignore, is put back: a terminal sends it to both.
run_logged() {
    local log=$1 status caught=true asked=''
    shift
    trap 'caught=true' INT
    trap 'caught=true asked=true; end_command' TERM HUP
    (trap - INT && if [[ $(type -t "$1") == function ]]; then "$@"; else exec "$@"; fi) </dev/null 2>&1 | (trap '' INT TERM HUP && exec tee -a "$log") &
    [[ -z $asked ]] || end_command # asked before it was there
    while [[ -n $caught ]]; do
        caught='' status=0
        wait %% || status=$?
    done
    trap - INT TERM HUP
    return "$status"
}

# end_command: ask the command of run_logged to end, and not the tee after it.
end_command() {
    kill -TERM "$(jobs -p %%)" 2>/dev/null || true
}

# run_stage STAGES NAME FOLDER [FILE...] -- COMMAND...: run the command of a stage (`3`) or of several (`0-2`) if
# it was asked for; what it prints is added to FOLDER/log/NAME.log. FILEs are what it reads and writes: while they
# and the command are what they were when it last succeeded, it is complete and not repeated. Without FILEs the
# command decides that itself. A failure stops everything with the command's own status.
run_stage() {
    local first=${1%-*} last=${1#*-} title=$2 log=$3/log/$2.log done=$3/log/$2.done files=() status=0
    shift 3
    ((first <= stop_stage && last >= stage)) || return 0
    while [[ $1 != -- ]]; do
        files+=("$1")
        shift
    done
    shift
    mkdir -p "${log%/*}"
    if [[ -z $force && ${#files[@]} -gt 0 && -f $done && $(<"$done") == "$* $(state "${files[@]}")" ]]; then
        echo "$title: complete"
        return
    fi
    { printf '[%(%F %T)T] %s:' -1 "$title" && printf ' %q' "$@" && echo; } | tee -a "$log"
    run_logged "$log" "$@" || status=$?
    if ((status != 0)); then
        echo "Stage $first ($title) failed with status $status; its log is $log" >&2
        exit "$status"
    fi
    ((${#files[@]} == 0)) || echo "$* $(state "${files[@]}")" >"$done"
}

# repeat_if_changed FOLDER DONE: forget that a stage is complete if anything in the FOLDER it reads came or changed since.
repeat_if_changed() {
    local folder
    folder=$(cd "$1" && pwd)
    if [[ -f $2 && -n $(find -L "$folder" -path "$out" -prune -o -cnewer "$2" -print -quit 2>/dev/null) ]]; then
        echo "$1 has changed since it was prepared"
        rm "$2"
    fi
}

# prepare_recipe: stages 0 to 2. A recipe with a kaldi.sh leaves 1 and 2 to Kaldi's GMMs or, where there is no
# Kaldi, to its without_kaldi.sh; the prepare.py of any other recipe does everything.
prepare_recipe() {
    local prepare=(python "$recipe_dir/prepare.py" --out "$out" ${corpus:+--corpus "$corpus"})
    [[ -z $force ]] || ! prepares_with --force || prepare+=(--force)
    if [[ ! -f $recipe_dir/kaldi.sh ]]; then
        run_stage 0-2 prepare "$out" -- "${prepare[@]}" ${dim:+--dim "$dim"}
        return
    fi
    [[ -z $corpus || $stage -gt 0 ]] || repeat_if_changed "$corpus" "$out/log/prepare.done"
    run_stage 0 prepare "$out" "$recipe_dir"/*.py "$out"/data/{train,dev,test,eval}/text "$out/data/local/lm.arpa" -- \
        "${prepare[@]}"
    if has_kaldi; then
        run_stage 1-2 kaldi "$out" -- "$root/local/kaldi_gmm.sh" --recipe "$recipe_dir" --out "$out" --nj "$nj" \
            ${dim:+--dim "$dim"} ${force:+--force}
    elif [[ -f $recipe_dir/without_kaldi.sh ]]; then
        # shellcheck source=/dev/null
        . "$recipe_dir/without_kaldi.sh"
    elif ((stage <= 2 && stop_stage >= 1)); then
        fail "Stages 1 and 2 of the recipe $name need Kaldi: set KALDI_ROOT to its folder, copy your path.sh beside run.sh, or start from an experiment by --kaldi-dir."
    fi
}
