"""An experiment whose bayes-asr is a stub, for local/gmm.sh.

The stub notes down its arguments, refuses inputs that are not there, and makes what the verb makes.
"""

from pathlib import Path

from tests.support.gmm_experiment import Experiment
from tests.support.script_stubs import executable

STUB = """#!/usr/bin/env bash
printf -v arguments '\\t%s' "$@"; echo "bayes-asr$arguments" >>"$CALLS"
if [[ -n $FAILING && "$*" == $FAILING ]]; then echo "it went wrong"; exit 4; fi
case "$1 $2" in
    features*) made=$2 inputs=("$2/wav.scp") ;;
    graph*) made=${*: -1} inputs=("$3" "$5" "$7") ;;
    gmm\\ score) made=$3 inputs=("$3"/decode_{dev,test}/lat.1.gz) ;;
    *)
        inputs=()
        for word in "${@:3}"; do [[ $word != -* ]] || break; inputs+=("$word"); done
        made=${inputs[*]: -1}
        unset "inputs[-1]"
        ;;
esac
for input in "${inputs[@]}"; do
    [[ -e $input ]] || { echo "bayes-asr: there is no $input"; exit 9; }
done
make() { mkdir -p "$made"; for file; do echo "$RANDOM" >"$made/$file"; done; }
case "$1 $2" in
    features*) cp "$2"/{wav,feats}.scp; cp "$2"/{wav,cmvn}.scp ;;
    gmm\\ lang) make L.fst words.txt ;;
    gmm\\ align) make final.mdl tree trans.1 ali.1.gz ;;
    gmm\\ decode) make trans.1 lat.1.gz ;;
    gmm\\ features) make feats.scp cmvn.scp && cp "$3"/{[st]*,utt2spk} "$made" ;;
    gmm\\ score) make score_dev.json score_test.json ;;
    gmm*) make final.mdl final.alimdl final.mat tree ;;
    graph*) make HCLG.fst words.txt ;;
esac
"""


class GmmExperiment(Experiment):
    """An experiment with a stub of bayes-asr."""

    script = "gmm.sh"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        executable(folder / "environment/bin/bayes-asr", STUB)

    def calls(self) -> list[str]:
        """The arguments of each call, without the folder of the experiment."""
        calls = [call.removeprefix("bayes-asr ") for call in super().calls()]
        return [call.replace(f"{self.folder}/", "") for call in calls]
