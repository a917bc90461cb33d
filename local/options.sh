# shellcheck shell=bash disable=SC2034,SC2178  # $option refers to a variable of the script, which may be an array
# Options of a script, read from the script's own header. Nothing on the command line is evaluated.
# As Kaldi's utils/parse_options.sh, but that what is declared is what the header says of it.
#
# A header line `#   --some-name VALUE  what it means` declares an option and the variable some_name, which the
# script sets to its default. VALUE is in upper case: N is a number; `VALUE...` may be several and be repeated, its
# variable is an array. Without VALUE the option is a switch, its variable becomes "true".

if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 404)); then
    echo "bash 4.4 or newer is needed, this is $BASH_VERSION" >&2
    exit 1
fi

script=${0##*/} # how messages name it
# refuse MESSAGE: a mistake on the command line.
refuse() {
    printf '%s: %s\n' "$script" "$1" >&2
    exit 2
}

# nearest WORD KNOWN...: print ", did you mean KNOWN?" if one is near.
nearest() {
    python3 -c 'import difflib, sys
for near in difflib.get_close_matches(sys.argv[1], sys.argv[2:], 1): print(f", did you mean {near}?")' \
        "$@" 2>/dev/null || true
}

# print_header: the comment at the top of the running script, without its first line.
print_header() {
    sed -n '2,${/^#/!q;/^# shellcheck/!s/^# \{0,1\}//p;}' "$0"
}

# parse_options ARGUMENT...: set the declared variables; print the header at --help. $options has each value that is
# then set, by default too, as --NAME=VALUE.
parse_options() {
    local -A value_of=()
    local name value rest joined
    while read -r name value rest; do
        [[ $name != --* ]] && continue
        [[ $value =~ ^[A-Z|=]+(\.\.\.)?$ ]] || value=
        value_of[$name]=$value
    done < <(print_header)

    while (($#)); do
        joined=''
        case $1 in
            --help | -h)
                print_header
                exit 0
                ;;
            --*=*)
                [[ -n ${value_of[${1%%=*}]-VALUE} ]] || refuse "${1%%=*} takes no value"
                set -- "${1%%=*}" "${1#*=}" "${@:2}"
                joined=true
                ;;
            --?*) ;;
            *) refuse "'$1' is not an option (--help lists them)" ;;
        esac
        [[ -n ${value_of[$1]+known} ]] ||
            refuse "unknown option $1$(nearest "$1" "${!value_of[@]}") (--help lists them)"
        value=${value_of[$1]}
        name=${1#--}
        local -n option=${name//-/_}
        shift
        if [[ -z $value ]]; then
            option=true
            continue
        fi
        [[ $# -gt 0 && $1 != --* ]] || refuse "--$name needs a value: --$name ${value%...}"
        [[ $value != N || $1 =~ ^(0|[1-9][0-9]{0,8})$ ]] || refuse "--$name needs a number, not '$1'"
        if [[ $value != *... ]]; then
            option=$1 && shift
            continue
        fi
        option+=("$1") && shift
        while [[ -z $joined && $# -gt 0 && $1 != -* ]]; do # `--NAME=VALUE` has one
            option+=("$1") && shift
        done
    done

    options=()
    for name in "${!value_of[@]}"; do
        name=${name#--}
        local -n option=${name//-/_}
        for value in "${option[@]}"; do
            options+=("--$name=$value")
        done
    done
}
