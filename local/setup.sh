# shellcheck shell=bash disable=SC2034,SC2154  # run.sh reads $activation and $setting_up
# Makes the Python environment that the scripts run in, once.
# The script that reads this sets $root, the folder of this checkout, and parse_options $options.
: "${root:?}"

oldest_python='3.11'
cpu_builds=https://download.pytorch.org/whl/cpu

# from_here PATH: the path from the working directory where it lies below it, in the shell's spelling.
from_here() {
    printf '%q\n' "${1#"$PWD"/}"
}

# fail MESSAGE...: stop with one line for each message.
fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

# new_enough PYTHON: succeeds if PYTHON runs and is not too old.
new_enough() {
    "$1" -c "import sys; sys.exit(sys.version_info < (${oldest_python/./, }))" 2>/dev/null
}

# torch_version PYTHON: the version of the torch that PYTHON imports, or nothing.
torch_version() {
    "$1" -W ignore -c 'import torch; print(torch.__version__)' 2>/dev/null || true
}

# find_python: the first Python on the PATH that is new enough.
find_python() {
    local python
    for python in python3 python python3.{11..15}; do
        if new_enough "$python"; then
            echo "$python"
            return
        fi
    done
    fail "Python $oldest_python or newer is needed and none was found on the PATH: install it, or activate an environment that has it."
}

# make_environment DIR: a virtual environment at DIR; it sees the system's packages if torch is among them.
make_environment() {
    local python see=()
    python=$(find_python)
    "$python" -c 'import venv, ensurepip' 2>/dev/null || fail \
        "$python lacks the modules venv and ensurepip, so no virtual environment can be made." \
        "Install them (on Debian and Ubuntu the package python3-venv) or activate an environment, and run this again."
    [[ -n $(torch_version "$python") ]] && see=(--system-site-packages)
    echo "Making a virtual environment in $1 with $("$python" --version)"
    "$python" -m venv --clear "${see[@]}" "$1"
}

# active_environment: the folder of the virtual or conda environment in use, or nothing.
active_environment() {
    if [[ -n ${VIRTUAL_ENV:-} ]]; then
        echo "$VIRTUAL_ENV"
    elif [[ ${CONDA_DEFAULT_ENV:-base} != base ]]; then
        echo "$CONDA_PREFIX"
    else
        python3 -c 'import sys; sys.prefix == sys.base_prefix or print(sys.prefix)' 2>/dev/null || true
    fi
}

# find_environment: set $environment to the active environment, or to .venv here, which is made if need be, and
# $activation to the command that makes it the active one, if it is not.
find_environment() {
    environment=$(active_environment)
    activation=''
    if [[ -z $environment ]]; then
        environment=$root/.venv
        activation="source $(from_here "$environment/bin/activate")"
        "$environment/bin/python" -c 'import pip' 2>/dev/null || make_environment "$environment"
    fi
    new_enough "$environment/bin/python" ||
        fail "The environment $environment has no Python $oldest_python or newer: deactivate it or make a new one."
}

# fingerprint: changes when an installation would turn out differently.
fingerprint() {
    {
        echo "$root"
        "$environment/bin/python" --version
        cat "$root/setup.py" "$root/pyproject.toml" "$root/constraints.txt"
        find "$root/bayes_asr" -path '*/csrc/*' -type f -exec cat {} +
    } | cksum
}

# pins: the exact versions to install. A torch of another version than ours keeps its own dependencies.
pins() {
    local ours present
    ours=$(sed -n 's/^torch==//p' "$root/constraints.txt")
    present=$(torch_version "$environment/bin/python")
    if [[ -z $present || ${present%+*} == "$ours" ]]; then
        cat "$root/constraints.txt"
    else
        echo "torch==$present"
        sed '/^# torch and what it needs/,/^$/d' "$root/constraints.txt"
    fi
}

# install_torch: where there is none, its CPU build if no NVIDIA card is seen; pip by itself takes the CUDA build on Linux.
install_torch() {
    local build=${BAYES_ASR_TORCH:-} why='BAYES_ASR_TORCH says so' ours
    [[ $build == @(|cpu|cuda) ]] || fail "BAYES_ASR_TORCH=$build: the builds of PyTorch are cpu and cuda."
    [[ -z $(torch_version "$environment/bin/python") && $(uname -s) == Linux ]] || return 0
    if [[ -z $build ]] && nvidia-smi -L >/dev/null 2>&1; then
        build=cuda why='there is an NVIDIA card'
    elif [[ -z $build ]]; then
        build=cpu why='no NVIDIA card is seen'
    fi
    echo "PyTorch is not installed yet. Its CPU build is a download of about 190 MB and takes 720 MB on disk, its CUDA build"
    echo "takes 5.7 GB. The $build build is installed, as $why. To choose: BAYES_ASR_TORCH=cpu or cuda before the command."
    [[ $build == cpu ]] || return 0
    ours=$(sed -n 's/^torch==//p' "$root/constraints.txt")
    "$environment/bin/python" -m pip install --no-compile --no-deps --retries 1 --timeout 20 --index-url "$cpu_builds" "torch==$ours" ||
        echo "There is no CPU build of torch $ours at $cpu_builds: what pip finds by itself follows."
}

# install EXTRAS: this checkout and what it needs, by pip alone.
install() {
    local compiler=${CXX:-c++} constraints=$environment/.bayes_asr-constraints.txt packages
    install_torch
    echo "Installing into $environment"
    if command -v "${compiler%% *}" >/dev/null; then
        echo 'Its C++ is compiled on the way, silently: a minute or two.'
    else
        echo 'No C++ compiler was found: the slower NumPy and PyTorch forms will be used instead.'
    fi
    pins >"$constraints"
    (cd "$root" && "$environment/bin/python" -m pip install --no-compile --editable ".[$1]" --constraint "$constraints") ||
        fail "The installation failed, see above. Running this again continues it."
    # pip compiles on one processor, and no checkout; each process would, where PYTHONDONTWRITEBYTECODE is set.
    packages=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    "$environment/bin/python" -m compileall -qq -j 0 "$packages" "$root/bayes_asr" || true
}

# installed_checkout: the checkout whose code the environment runs, or nothing.
installed_checkout() {
    local record
    for record in "$environment"/lib/python*/site-packages/bayes_asr-*.dist-info/direct_url.json; do
        [[ ! -f $record ]] || "$environment/bin/python" -c 'if True:
            import json, sys, urllib.request
            url = json.load(open(sys.argv[1]))["url"]
            print(urllib.request.url2pathname(url.removeprefix("file://")))' "$record"
    done
}

# ready EXTRAS FINGERPRINT: succeeds if these extras, or more, are installed as the fingerprint says.
ready() {
    local stamp
    for stamp in "$environment/.bayes_asr-$1"*; do
        [[ -f $stamp && $(<"$stamp") == "$2" ]] && return
    done
    return 1
}

# refuse_early: what needs no environment to be refused, before one is made.
refuse_early() {
    local python
    [[ -z ${BAYES_ASR_PYTHON:-} ]] || return 0 # none is made, and all is refused at once
    python=$(active_environment)
    python=${python:-$root/.venv}/bin/python
    new_enough "$python" || python=$(find_python)
    PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} "$python" -P -m bayes_asr.recipe.stages "${script:?}" refuse "$root" "${options[@]}"
}

# set_up EXTRAS: an environment with this checkout and its extras, first on the PATH; quick when it is there.
# $setting_up: the seconds until it was made, if it was.
# `bayes-asr run` names its own Python instead, which has all that is going to be used.
set_up() {
    local now other
    if [[ -n ${BAYES_ASR_PYTHON:-} ]]; then
        export PATH="$root/local/bin:$PATH"
        return
    fi
    [[ -f $root/setup.py ]] || fail "$root is no checkout: use bayes-asr run."
    # pip ends as if it had failed, where something else is tried.
    trap 'echo "The installation was interrupted (status 130). Running this again continues it." >&2; exit 130' INT
    find_environment
    now=$(fingerprint)
    other=$(installed_checkout)
    [[ ! $other -ef $root ]] || other=
    # Commands of the other checkout would run the code of this one.
    [[ ! -d $other || $environment == "$root/.venv" ]] || fail \
        "The active environment $environment belongs to the checkout $other, and this is $root." \
        "Deactivate it, so that an environment is made here. Or give it to this checkout:" \
        "    $(printf '%q ' "$environment/bin/python" -m pip install --editable "$root")"
    if [[ -n $other ]] || ! ready "$1" "$now"; then
        install "$1"
        setting_up=$SECONDS
        echo "$now" >"$environment/.bayes_asr-$1"
    fi
    trap - INT
    export VIRTUAL_ENV=$environment PATH="$environment/bin:$PATH"
}
