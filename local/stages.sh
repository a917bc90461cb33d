# shellcheck shell=bash
# How a script runs a stage. Which stages there are to run, and which of them are complete, says bayes_asr.recipe.stages.

# ask QUESTION WORD...: what bayes_asr.recipe.stages answers.
ask() {
    python -P -m bayes_asr.recipe.stages "${script:?}" "$@"
}

# read_plan OPTION...: check the options and set the variables that bayes_asr/recipe/stages/plan.py names. It prints the name
# of each, the number of its values, and these.
read_plan() {
    local name number
    while IFS= read -r -d '' name && IFS= read -r -d '' number; do
        mapfile -d '' -t -n "$number" "$name"
    done < <(ask plan "${root:?}" "$@")
    wait $!
}

# recipe_file NAME: the path of a file of the recipe, its own or of a recipe that it builds on.
# shellcheck disable=SC2154  # read_plan sets builds_on
recipe_file() {
    local folder
    for folder in "${recipe_dir:?}" "${builds_on[@]}"; do
        [[ -f $folder/$1 ]] && echo "$folder/$1" && return
    done
    echo "$recipe_dir/$1"
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

# run_stage STAGES NAME FOLDER [FILE...] -- [COMMAND...]: run the command of a stage (`3`) or of several (`0-2`), if
# there is one and it was asked for; what it prints is added to FOLDER/log/NAME.log. FILEs are what it reads and
# writes: while they and the command are what they were when it last succeeded, it is complete and not repeated.
# Without FILEs the command decides that itself. A failure stops everything with the command's own status.
run_stage() {
    local first=${1%-*} last=${1#*-} title=$2 log=$3/log/$2.log done=$3/log/$2.done files=() verdict=due status=0
    shift 3
    while [[ $1 != -- ]]; do
        files+=("$1") && shift
    done
    shift
    (($# && first <= ${stop_stage:?} && last >= ${stage:?})) || return 0
    mkdir -p "${log%/*}"
    [[ ${#files[@]} == 0 || -n $force ]] || verdict=$(ask is-complete "$done" "${files[@]}" -- "$@")
    if [[ $verdict == complete ]]; then
        echo "$title: complete"
        return
    fi
    { printf '[%(%F %T)T] %s:' -1 "$title" && printf ' %q' "$@" && echo; } | tee -a "$log"
    run_logged "$log" "$@" || status=$?
    if ((status != 0)); then
        echo "Stage $first ($title) failed with status $status; its log is $log" >&2
        exit "$status"
    fi
    ((${#files[@]} == 0)) || ask completed "$done" "${files[@]}" -- "$@"
}
