# shellcheck shell=bash disable=SC2154  # run.sh sets recipe_folders, parse_options sets options
# How a script runs a stage: what it prints is logged, and what is complete is not repeated.

# ask QUESTION [OPTION...]: what bayes_asr.recipe.stages knows of the recipe, by the options of the script and these.
ask() {
    python -P -m bayes_asr.recipe.stages "${script:?}" "$1" "${root:?}" "${options[@]}" "${@:2}"
}

# learn [ARRAY=]QUESTION... [OPTION...]: the answers to several questions, one word a line, each in an array that is there.
# They come from one process, of which each takes a third of a second to begin; what `check` and `ignored` say is printed.
learn() {
    local -A array_of=()
    local asked='' told question answer
    while (($#)) && [[ $1 != --* ]]; do
        array_of[${1#*=}]=${1%%=*}
        asked+=,${1#*=}
        shift
    done
    told=$(ask "${asked#,}" "$@") # not of a process beside this one, which would not hear of Ctrl-C
    while IFS=$'\t' read -r question answer; do
        [[ -n $question ]] || break # nothing was said at all
        if [[ $question == @(check|ignored) ]]; then
            echo "$answer"
        else
            local -n answers=${array_of[$question]}
            answers+=("$answer")
        fi
    done <<<"$told"
}

# recipe_file NAME: the path of a file of the recipe, its own or of a recipe that it builds on.
recipe_file() {
    local folder
    for folder in "${recipe_folders[@]}"; do
        [[ -f $folder/$1 ]] && echo "$folder/$1" && return
    done
    echo "${recipe_folders[0]}/$1"
}

# recipe_scripts: the paths of the recipe's Python scripts, which stage 0 reads as it reads data.
recipe_scripts() {
    local folder file
    for folder in "${recipe_folders[@]}"; do
        for file in "$folder"/[!.]*.py; do
            [[ ! -f $file ]] || echo "${file##*/}"
        done
    done | LC_ALL=C sort -u | while read -r file; do
        recipe_file "$file"
    done
}

# quoted PATH: the path as a text of YAML, as --set KEY=VALUE takes it: a plain one would end at ` #`.
quoted() {
    local quote="'"
    printf "'%s'\n" "${1//$quote/$quote$quote}"
}

# What a command prints goes into a log too, so it prints to no terminal: its bars go to this one.
[[ ! -t 2 ]] || BAYES_ASR_TERMINAL=$(tty <&2)
export BAYES_ASR_TERMINAL

# Commands, which may be such scripts themselves, see here whose options the user has.
outer_script=${BAYES_ASR_STAGE_OF:-}
export BAYES_ASR_STAGE_OF=${outer_script:-${script-}}

declare -A seconds_of=() # by stage, without the set that it is about
titles=()                # of seconds_of, in the order of the stages
asked=''                 # the status to end with, where a signal came while a command of run_logged ran

# run_logged LOG COMMAND...: run a command, adding what it prints to LOG. It runs beside this shell, which can so pass
# on that it is to end, and waits until the command has saved what it will. SIGINT, which bash lets such commands
# ignore, is put back: a terminal sends it to both.
run_logged() {
    local log=$1 status caught=true
    shift
    asked=''
    trap 'caught=true asked=130' INT
    trap 'caught=true asked=129; end_command' HUP
    trap 'caught=true asked=143; end_command' TERM
    (trap - INT && if [[ $(type -t "$1") == function ]]; then "$@"; else exec "$@"; fi) </dev/null 2>&1 | (trap '' INT TERM HUP && exec tee -a "$log") &
    [[ -z $asked ]] || end_command # asked before it was there
    while [[ -n $caught ]]; do
        caught='' status=0
        wait %% || status=$?
    done
    ((status >= 0)) || status=$asked # bash has lost that of a command which ended just as the signal came
    trap - INT TERM HUP
    return "$status"
}

# end_command: ask the command of run_logged to end, and not the tee after it.
end_command() {
    kill -TERM "$(jobs -p %%)" 2>/dev/null || true
}

# described PROGRAM FILE...: what PROGRAM prints of the files that exist, one a line.
described() {
    local program=$1 file files=()
    shift
    for file; do
        [[ ! -e $file ]] || files+=("$file")
    done
    ((${#files[@]} == 0)) || "$program" "${files[@]}"
}

# without_processes STAMP: the stamp without `--nj N`, on which no result depends.
without_processes() {
    if [[ $1 =~ ^([^$'\n']*)' --nj '[0-9]+(.*)$ ]]; then
        echo "${BASH_REMATCH[1]}${BASH_REMATCH[2]}"
    else
        echo "$1"
    fi
}

# stamp COMMAND LINES...: the stamp of a command and of the descriptions of its files; $out may be elsewhere in a copy.
stamp() {
    local text="$1 " lines
    for lines in "${@:2}"; do
        text+=$lines${lines:+$'\n'}
    done
    without_processes "${text%$'\n'}"
}

# mtimes FILE...: the size of each, and its time in nanoseconds.
mtimes() {
    stat --dereference --printf '%n %s %.9Y\n' -- "$@" | sed 's/\.\([0-9]*\)$/\1/'
}

# forget_other_tables DATA COPY STAMP: remove the stamp of features in COPY, whose tables of utterances were copied from DATA,
# where one of these has another content, or is in one of them alone: references are read there.
forget_other_tables() {
    local name
    for name in text text_words stm glm utt2spk spk2gender; do
        [[ ! -f $3 || (! -f $1/$name && ! -f $2/$name) ]] || cmp -s "$1/$name" "$2/$name" || rm "$3"
    done
}

# list_sounds WAV_SCP...: name, size and time of each sound of tables. A line is a file, or a command with files among its
# words. Links and backups renew the time of change, and GMMs would be trained anew for nothing: that of modification counts.
list_sounds() {
    sed 's/^[^[:space:]]*[[:space:]]*//; /|[[:space:]]*$/s/[[:space:]]/\n/g' "$@" | sed 's|^[^/]|./&|' | tr '\n' '\0' |
        xargs -0 stat -L -c '%n %s %Y' 2>/dev/null || true
}

# forget_changed_sounds STAMP FILE...: remove the stamp of what was made of FILEs where one is a wav.scp and a sound that it
# names is not that which was there then: a corpus may have another file of the same name, whose time may be older. What is
# there now is written beside the stamp. A sound that is not there has not changed: its disk may be elsewhere.
forget_changed_sounds() {
    local stamp=$1 known=${1%.done}.sounds file tables=() now
    for file in "${@:2}"; do
        [[ ${file##*/} != wav.scp || ! -f $file ]] || tables+=("$file")
    done
    ((${#tables[@]})) || return 0
    now=$(list_sounds "${tables[@]}")
    if [[ -f $stamp ]]; then
        if sounds_are_known "$now" "$known" "$stamp"; then
            [[ ! -f $known ]] || return 0 # of a list that may be longer
        else
            echo "${tables[*]%/wav.scp}: sounds have changed since this stage was complete"
            rm "$stamp"
        fi
    fi
    mkdir -p "${known%/*}"
    printf '%s\n' "$now" >"$known"
}

# sounds_are_known LISTED KNOWN STAMP: whether all are in the file KNOWN; without it, as in older folders, whether none is newer
# than the stamp.
sounds_are_known() {
    if [[ -f $2 ]]; then
        [[ -z $1 ]] || ! grep -qvxFf "$2" <<<"$1"
    else
        awk -v "computed=$(stat -c %Y "$3")" '$NF > computed { exit 1 }' <<<"$1"
    fi
}

# contents COMMAND LINES...: the stamp of checksums, which says the same of a copy of $out.
contents() {
    local text
    text=$(stamp "$@")
    [[ -z ${out:-} ]] || text=${text//"$out"/OUT}
    echo "$text"
}

# is_complete DONE FILE... -- COMMAND...: succeeds if the command and its files are what they were when DONE was written.
# Times tell, as a file may stand for others that were made with it; but in a copy, where all are new, and in a folder that
# was renamed, contents do.
is_complete() {
    local done=$1 sums=${1%.done}.sums files=() times present inode='' copied=''
    shift
    [[ -z $force && -f $done ]] || return
    while [[ $1 != -- ]]; do
        files+=("$1") && shift
    done
    times=$(stamp "${*:2}" "$(described mtimes "${files[@]}")")
    [[ $(without_processes "$(<"$done")") != "$times" ]] || return 0
    [[ -f $sums ]] || return
    { read -r inode && copied=$(cat); } <"$sums" || return # empty where a disk was full
    [[ $inode != "$(inode_of "$done")" ]] || names_other_folder "$(<"$done")" "$times" || return
    present=$(contents "${*:2}" "$(described cksum "${files[@]}")")
    [[ $(without_processes "$copied") == "$present" ]] || return
    write_stamps "$done" "$times" "$present"
}

# names_other_folder STAMP TIMES: whether the stamp names no file of $out by the name that it has now, and TIMES do.
names_other_folder() {
    [[ -n ${out:-} && $1 != *[[:space:]=\'\"]"$out/"* && $2 == *"$out/"* ]]
}

# write_stamps DONE TIMES CONTENTS: write DONE and, beside it, by what a copy of it is known. DONE is as old as the
# beginning of its stage, where there is one: what has changed since then is newer.
write_stamps() {
    echo "$2" >"$1.new"
    [[ ! -f $1.begun ]] || touch -r "$1.begun" "$1.new"
    { inode_of "$1.new" && echo "$3"; } >"${1%.done}.sums.new"
    mv "${1%.done}.sums.new" "${1%.done}.sums"
    mv "$1.new" "$1"
    rm -f "$1.begun"
}

# inode_of FILE: its number, which no copy has.
inode_of() {
    stat --printf '%i\n' -- "$1"
}

# run_stage STAGES NAME FOLDER [FILE... | INPUT... makes OUTPUT...] -- COMMAND...: run the command of a stage (`3`) or of several
# (`0-2`), if it was asked for; what it prints is added to FOLDER/log/NAME.log. While its files and the command are what
# they were when it last succeeded, it is complete and not repeated; of INPUTs, when it began. Without
# files the command decides that itself. $heeds, if set, counts as a word of the command: settings that it reads. $voids may
# name a folder that was made of the OUTPUTs: it goes where these are made anew. A failure stops everything with the command's own status; of stages within a stage the outer one says so.
run_stage() {
    local first=${1%-*} last=${1#*-} title=$2 log=$3/log/$2.log done=$3/log/$2.done inputs=() outputs=() status=0 start
    local times='' sums='' words
    shift 3
    while [[ $1 != @(makes|--) ]]; do
        inputs+=("$1") && shift
    done
    [[ $1 == makes ]] || { outputs=("${inputs[@]}") && inputs=(); } # FILE..., in which a stage of one's own may have both
    while [[ $1 != -- ]]; do
        [[ $1 == makes ]] || outputs+=("$1")
        shift
    done
    shift
    words="$*${heeds:+ $heeds}"
    ((first <= ${stop_stage:?} && last >= ${stage:?})) || return 0
    mkdir -p "${log%/*}"
    if ((${#inputs[@]} + ${#outputs[@]})); then
        forget_changed_sounds "$done" "${inputs[@]}"
        if is_complete "$done" "${inputs[@]}" "${outputs[@]}" -- "$words"; then
            echo "$title: complete"
            return
        fi
        [[ -z ${voids:-} ]] || rm -rf "$voids"
        touch "$done.begun"
        times=$(described mtimes "${inputs[@]}")
        sums=$(described cksum "${inputs[@]}")
    fi
    { printf '[%(%F %T)T] %s:' -1 "$title" && printf ' %q' "$@" && echo; } | tee -a "$log"
    start=$SECONDS
    BAYES_ASR_STAGE=$first run_logged "$log" "$@" || status=$?
    ((status == 0)) || end_stage "$first ($title)" "$status" "$log"
    [[ -n ${seconds_of[${title%%_*}]:-} ]] || titles+=("${title%%_*}")
    ((seconds_of[${title%%_*}] += SECONDS - start, 1))
    if ((${#inputs[@]} + ${#outputs[@]})); then
        times=$(stamp "$words" "$times" "$(described mtimes "${outputs[@]}")")
        write_stamps "$done" "$times" "$(contents "$words" "$sums" "$(described cksum "${outputs[@]}")")"
    fi
    # The command had ended when it was asked to: it is complete, and the next does not begin.
    [[ -z $asked ]] || end_stage "$first ($title)" "$asked" "$log"
}

# end_stage STAGE STATUS LOG: end everything with a status, which the outer one of stages within a stage says.
end_stage() {
    [[ -n $outer_script ]] || report_failure "$@"
    exit "$2"
}

# report_failure STAGE STATUS LOG: say that a stage has not succeeded; 128 and a signal is somebody's wish.
report_failure() {
    local what="failed with status $2"
    case $2 in
        129 | 130 | 143) what="was interrupted (status $2); the same command goes on from there${force:+, without --force; what it has not reached stays}" ;;
    esac
    echo "Stage $1 $what; its log is $3" >&2
}

# duration SECONDS: hours, minutes and seconds.
duration() {
    printf '%d:%02d:%02d' $(($1 / 3600)) $(($1 / 60 % 60)) $(($1 % 60))
}

# list_times: the time since the script began, that of making the environment where it was made, and of each stage that
# was not complete.
list_times() {
    local title times=${setting_up:+, setting up $(duration "$setting_up")}
    for title in "${titles[@]}"; do
        times+=", $title $(duration "${seconds_of[$title]}")"
    done
    echo "Took $(duration "$SECONDS")${times:+: ${times#, }}"
}

# advise COMMAND WHAT: a command to go on with, and what it is for.
advise() {
    printf '%-60s # %s\n' "$1" "$2"
}
