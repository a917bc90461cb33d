"""Signals to run.sh while a stage works: it saves, and no other begins."""

import os
import signal

import pytest

from tests.support.script_stubs import Checkout, executable


@pytest.mark.slow
def test_signal_to_end_reaches_the_stage_and_is_waited_for(checkout: Checkout) -> None:
    """The stub asks run.sh to end, as a queue does, and saves before it ends itself."""
    executable(
        checkout.environment / "bin" / "bayes-asr",
        "#!/usr/bin/env bash\n[[ $1 = doctor ]] && exit\n"
        "trap 'sleep 0.3; echo saved; exit 143' TERM\n"
        'kill "$PPID"\nfor i in {1..100}; do sleep 0.1; done\n',
    )
    done = checkout.run("./run.sh", "--recipe", "given", "--kaldi-dir", ".")
    assert done.returncode == 143
    assert done.stdout.endswith("saved\n")
    assert "Stage 3 (train) was interrupted (status 143); the same command goes on" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [("INT", 130), ("HUP", 129), ("TERM", 143)])
def test_signal_as_a_stage_ends_stops_before_the_next(
    number: str, status: int, checkout: Checkout
) -> None:
    """The stub does not hear of it any more, and succeeds; the stage is complete."""
    stub = checkout.environment / "bin" / "bayes-asr"
    works = stub.read_text()
    begin, rest = works.split("\n", 1)
    signalled = f'[[ $1 != train ]] || {{ trap "" INT HUP TERM; kill -{number} "$PPID"; }}'
    executable(stub, f"{begin}\n{signalled}\n{rest}")
    done = checkout.run("./run.sh", "--recipe", "made")
    assert done.returncode == status
    assert f"Stage 3 (train) was interrupted (status {status})" in done.stderr
    assert checkout.calls("bayes-asr")[-1][0] == "train"
    executable(stub, works)
    again = checkout.run("./run.sh", "--recipe", "made")
    assert again.returncode == 0, again.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_signal_to_all_processes_lets_the_stage_save(
    checkout: Checkout, number: signal.Signals, status: int
) -> None:
    """As a terminal sends it: to run.sh, to the stage, and to what writes the log."""
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("the tests run where this signal is ignored")
    executable(
        checkout.environment / "bin" / "bayes-asr",
        "#!/usr/bin/env bash\n[[ $1 = doctor ]] && exit\n"
        f"trap 'sleep 0.3; echo saved; exit {status}' INT HUP TERM\n"
        "echo begun\nfor i in {1..100}; do sleep 0.1; done\n",
    )
    process = checkout.start("./run.sh", "--recipe", "given", "--kaldi-dir", ".")
    assert process.stdout
    printed = ""
    while not printed.endswith("begun\n"):
        printed += process.stdout.readline()
    os.killpg(process.pid, number)
    rest, _ = process.communicate()
    assert process.returncode == status
    assert "saved\n" in rest
    assert f"Stage 3 (train) was interrupted (status {status}); the same command goes on" in rest
    log = checkout.folder / "exp/given/given/seed1/log/train.log"
    said = log.read_text()  # bash may say of the sleep that SIGHUP ended it
    assert "begun\n" in said
    assert said.endswith("saved\n")
