#!/usr/bin/env bash
# Checks everything: style, types, shell scripts and tests. The first call makes the Python environment.
#
# usage: ./test.sh [--no-style] [--slow] [pytest options]
#
# Without --slow the fast tests run, with it all that need neither Kaldi's programs nor a GPU. --no-style leaves out
# style and types. What follows goes to pytest: ./test.sh -k scan, or ./test.sh -m kaldi where KALDI_ROOT is set.
# Real speech is looked for in BAYES_ASR_DATA (default: ../shared/data); tests that need it skip where it is absent.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=local/setup.sh
. "$root/local/setup.sh"

# check_style: of Python and of the scripts, and types.
check_style() {
    ruff check
    ruff format --check
    check_scripts & # beside mypy, which takes six times as long
    mypy
    wait $!
}

# check_scripts: the style of the scripts.
check_scripts() {
    local scripts
    mapfile -t scripts < <(grep -lrE '^#!.*\b(ba)?sh$' run.sh test.sh .ci local recipes)
    if command -v shellcheck >/dev/null; then
        shellcheck --external-sources "${scripts[@]}" local/*.sh recipes/*/*.sh
    else
        echo "shellcheck is not installed: the scripts are not checked"
    fi
}

tests=() style=true
while true; do
    case ${1:-} in
        --help | -h) sed -n '2,${/^#/!q;s/^# \{0,1\}//p;}' "$0" && exit ;;
        --slow) tests=(-m 'not kaldi and not gpu') ;;
        --no-style) style='' ;;
        *) break ;;
    esac
    shift
done
set_up mini,report,test

cd "$root"
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
[[ -z $style ]] || check_style
# Tests sync thousands of small files, which takes no time in memory.
if [[ -z ${TMPDIR:-} && -w /dev/shm ]] && (($(df -Pk /dev/shm | awk 'END { print $4 }') > 4000000)); then
    export TMPDIR=/dev/shm
fi
# One process for each processor: torch gets one thread (above), and most tests are single-threaded anyway.
pytest --numprocesses auto --maxprocesses 8 --dist worksteal "${tests[@]}" "$@"
