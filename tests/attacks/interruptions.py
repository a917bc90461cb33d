"""What can happen to a training or a job meanwhile, and the test that makes it happen."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Interruption:
    """A row of the second table in faults.md, in Markdown."""

    happens: str
    status: str
    said: str
    intact: str
    tests: tuple[str, ...]

    def line(self) -> str:
        """The row."""
        tests = ", ".join(f"`{test}`" for test in self.tests)
        return f"| {self.happens} | {self.status} | {self.said} | {self.intact} | {tests} |\n"


INTERRUPTIONS = (
    Interruption(
        "SIGKILL at any moment (out of memory, a node that is lost)",
        "137",
        "nothing; `bayes-asr status` says `killed`",
        "all up to the last checkpoint, at most `train.save_minutes` old",
        (
            "house/test_kill.py",
            (
                "train/test_resume.py::test_run_killed_at_any_batch_is_bit_for_bit_the_run_that_was_not"
            ),
        ),
    ),
    Interruption(
        "SIGTERM (a queue's time limit)",
        "143",
        (
            "`stopped by SIGTERM in epoch 3; everything is saved, and the same command goes on "
            "from there, without --new`"
        ),
        "all, up to the last batch",
        ("train/test_signals.py::test_signal_saves_and_the_same_command_goes_on",),
    ),
    Interruption(
        "SIGINT (Ctrl-C)",
        "130",
        "the same with SIGINT; a second one ends at once, as SIGKILL would",
        "all, up to the last batch",
        ("train/test_signals.py::test_second_signal_ends_at_once_and_handlers_are_put_back",),
    ),
    Interruption(
        "SIGHUP (the terminal is closed, the connection lost)",
        "129",
        "the same with SIGHUP, in `train.log`; under `nohup` nothing happens",
        "all, up to the last batch",
        ("train/test_signals.py::test_terminal_that_is_closed_stops_a_training_that_is_saved",),
    ),
    Interruption(
        "SIGTERM, SIGINT or SIGHUP to any of several processes",
        "as above",
        "the same, once",
        "all, up to the last batch",
        (
            (
                "base/processes/test_group.py::test_a_signal_to_one_process_stops_all_and_one_process_goes_on"
            ),
        ),
    ),
    Interruption(
        "an error in one of several processes",
        "1",
        "its message, once; all end",
        "all up to the last checkpoint",
        ("base/processes/test_group.py::test_an_error_in_one_process_ends_all_and_is_said_once",),
    ),
    Interruption(
        "SIGKILL of one of several processes",
        "137 of `--nproc`; 1 of each of the others",
        "`another process of this training was killed, or its machine is gone; ...`",
        "all up to the last checkpoint",
        (
            (
                "base/processes/test_group.py::test_started_process_that_is_killed_ends_all_with_its_status"
            ),
            "base/processes/test_group.py::test_a_process_that_is_killed_ends_all",
        ),
    ),
    Interruption(
        "the same while the others wait for what the first process reads",
        "the same",
        "the same, at once",
        "the same",
        (
            (
                "base/processes/test_group.py::test_a_first_process_that_is_killed_while_others_wait_ends_them"
            ),
        ),
    ),
    Interruption(
        "SIGKILL of what started several processes (with setpriv)",
        "137 of `--nproc`; 143 of the others",
        "`stopped by SIGTERM in epoch 3; ...`",
        "all, up to the last batch",
        (
            (
                "base/processes/test_group.py::test_started_processes_save_and_end_where_what_started_them_is_killed"
            ),
        ),
    ),
    Interruption(
        "a kill between two files of an epoch",
        "137",
        "nothing",
        "all; the epoch is repeated or not, to the same end",
        (
            (
                "train/test_run.py::test_run_killed_at_any_write_and_resumed_is_bit_for_bit_the_run_that_was_not"
            ),
        ),
    ),
    Interruption(
        "`last.pt` is cut, empty, garbage, or has a flipped bit",
        "0",
        "a warning; it is set aside as `last.pt.damaged`, and the one before it is used",
        "the epoch before; the last one is repeated",
        (
            "train/runs/test_checkpoint.py::test_damaged_last_checkpoint_is_replaced_by_the_one_before",
        ),
    ),
    Interruption(
        "a checkpoint inside an epoch is damaged",
        "0",
        "the same of `unfinished.pt`",
        "the epoch before; this one is repeated",
        (
            "train/runs/test_checkpoint.py::test_damaged_checkpoint_inside_an_epoch_repeats_the_epoch",
        ),
    ),
    Interruption(
        "every checkpoint to go on from is damaged",
        "1",
        (
            "`run/last.pt: damaged, and there is no other checkpoint to go on from; start over "
            "with --new`"
        ),
        "`best.pt`",
        ("train/runs/test_checkpoint.py::test_without_any_whole_checkpoint_the_run_is_refused",),
    ),
    Interruption(
        (
            "the same again, or the checkpoints were removed and `best.pt`, `history.jsonl` or "
            "`*.damaged` is left"
        ),
        "1",
        "`run/best.pt: of a run that has no last.pt to go on from; ... start over with --new`",
        "all",
        ("train/test_resume.py::test_run_that_lost_its_checkpoints_is_not_started_over_unasked",),
    ),
    Interruption(
        (
            "a whole checkpoint cannot be read: the disk fails, no permission, too many open "
            "files, no memory"
        ),
        "1",
        "the file, the system's error and a remedy",
        "all: nothing is set aside",
        (
            (
                "train/runs/test_checkpoint.py::test_whole_checkpoint_is_not_set_aside_where_disk_or_memory_fails"
            ),
        ),
    ),
    Interruption(
        "`history.jsonl` has lost lines, or is damaged",
        "0",
        (
            "a warning: `history.jsonl: lacks 1 of 2 epochs`; a damaged one is set aside as "
            "`history.jsonl.damaged`"
        ),
        "all but the lost lines: no number depends on them",
        ("train/test_resume.py::test_history_ends_where_the_run_goes_on",),
    ),
    Interruption(
        "`config.yaml` is missing beside a checkpoint",
        "0",
        "it is written anew, as the checkpoint has it",
        "all",
        ("train/test_resume.py::test_a_configuration_that_is_missing_is_that_of_the_checkpoint",),
    ),
    Interruption(
        "a key that alters the result is changed",
        "1",
        "`run/config.yaml: seed is 1 in this run, but 2 now; ...`",
        "all",
        ("train/test_run.py::test_only_what_has_no_effect_on_training_may_change",),
    ),
    Interruption(
        "features, alignments, speakers or statistics are changed",
        "1",
        "`data/train/feats.ark: has changed since this run was started; ...`",
        "all",
        ("train/test_resume.py::test_inputs_that_changed_under_a_run_are_refused_by_name",),
    ),
    Interruption(
        "another version of torch, numpy or Python, or another number of threads",
        "0",
        "a warning that names both",
        "all, but the numbers may differ in their last digits",
        ("train/test_resume.py::test_other_versions_are_announced",),
    ),
    Interruption(
        "a second process trains into the same directory",
        "1",
        "`run: another process is at work in this folder; ...`",
        "all",
        ("train/test_run.py::test_run_that_another_process_trains_is_refused",),
    ),
    Interruption(
        "`.in_use` or the run directory is removed under a training, and a second one begins there",
        "1 of the first",
        "`run/.in_use: was removed, or its folder was, while a process was at work there; ...`",
        "all of the second",
        ("train/test_run.py::test_two_trainings_never_write_into_one_folder",),
    ),
    Interruption(
        "memory runs out in training",
        "1",
        (
            "`not enough memory: 9 bytes were wanted for a batch in epoch 2: 8 utterances of ... "
            "frames, ... are too many; ...`"
        ),
        "all up to the last checkpoint",
        ("train/test_memory.py::test_lack_of_memory_names_the_batch_and_the_run_goes_on",),
    ),
    Interruption(
        "SIGKILL of a worker of `decode` or `align` (out of memory)",
        "1",
        "`utt: a worker process was killed (status -9), ...; try a smaller nj`",
        "what was there",
        ("decode/search/test_archive.py::test_death_of_a_worker_names_the_utterance",),
    ),
    Interruption(
        "SIGINT while the arguments of a verb are parsed",
        "130",
        "`bayes-asr: interrupted`",
        "all: nothing was begun",
        (("cli/test_interrupts.py::test_interrupt_while_arguments_are_parsed_is_one_line"),),
    ),
    Interruption(
        "`forward` or `decode` writes into a folder where another one does",
        "1",
        "`out: another process is at work in this folder; ...`",
        "all",
        ("house/test_one_job_in_a_folder.py::test_second_job_is_refused_and_harms_nothing",),
    ),
    Interruption(
        "`local/kaldi_gmm.sh` works in a folder where another one, or a job of it, still does",
        "1",
        "`out: another kaldi_gmm.sh is at work in this folder: ...`",
        "all",
        (
            (
                "recipes/test_kaldi_gmm.py::test_second_script_in_a_folder_is_refused_while_jobs_of_the_first_are_there"
            ),
        ),
    ),
    Interruption(
        "SIGKILL of `forward` or `decode`",
        "137",
        "nothing",
        "what was there; the next one removes what the killed one left",
        (
            (
                "house/test_one_job_in_a_folder.py::test_what_a_killed_job_left_goes_at_the_next_start"
            ),
        ),
    ),
    Interruption(
        (
            "`forward`, `decode`, `rescore`, `graph`, `align`, `score` or `report` is killed, or"
            " refused by the disk, at any change of a file"
        ),
        "137, or 1",
        "nothing, or the file and the system's error",
        "all old files or all new ones, at the latest once they are read",
        ("house/test_interference.py::test_files_that_belong_together_are_all_old_or_all_new",),
    ),
    Interruption(
        "the disk is full for a checkpoint inside an epoch",
        "0",
        "a warning; it is tried again",
        "the checkpoint before",
        (
            "train/runs/test_checkpoint.py::test_full_disk_inside_an_epoch_is_said_and_training_goes_on",
        ),
    ),
    Interruption(
        "the disk is full at the end of an epoch",
        "1",
        "`run/last.pt: No space left on device; ...`",
        "the epoch before",
        (
            "train/runs/test_checkpoint.py::test_full_disk_at_the_end_of_an_epoch_keeps_the_epoch_before",
        ),
    ),
    Interruption(
        "the disk is full when `--new` would start over",
        "1",
        "`run/first.pt: No space left on device; ...`",
        "the old run",
        (
            "train/runs/test_checkpoint.py::test_full_disk_at_the_start_of_a_new_run_keeps_the_old_one",
        ),
    ),
    Interruption(
        "the disk is full for the log, or for `state.json`",
        "0",
        "a warning",
        "all",
        (
            "train/runs/test_status.py::test_log_on_a_full_disk_is_said_once",
            "train/runs/test_status.py::test_state_that_cannot_be_written_does_not_end_the_training",
        ),
    ),
    Interruption(
        "a file system without hard links",
        "0",
        "nothing",
        "two checkpoints, as elsewhere",
        ("train/runs/test_checkpoint.py::test_file_system_without_links_keeps_two_checkpoints",),
    ),
    Interruption(
        "the clock is set",
        "0",
        "nothing: durations are of monotonic clocks",
        "all",
        ("train/runs/test_status.py::test_clock_that_is_set_changes_nothing",),
    ),
    Interruption(
        "NaN or infinity in the features of the training or dev set",
        "1",
        ("the archive, the utterance, the frame and the column, before the first batch is trained"),
        "nothing was written",
        (
            (
                "train/test_not_finite.py::test_features_that_are_not_finite_are_named_before_training"
            ),
        ),
    ),
    Interruption(
        "NaN or infinity in the loss or gradient of a batch",
        "0",
        "a warning that names epoch, batch and utterances; `skipped` in `history.jsonl`",
        "weights, optimizer and running statistics, as without that batch",
        ("train/test_not_finite.py::test_skipped_batch_changes_nothing",),
    ),
    Interruption(
        ("more than `train.max_bad_batches` of them in an epoch, or a dev loss that is not finite"),
        "0",
        (
            "a warning; the epoch is repeated at half the learning rate; `returns` in "
            "`history.jsonl`"
        ),
        "the epoch before",
        ("train/test_not_finite.py::test_run_that_skips_and_goes_back_is_resumed_bit_for_bit",),
    ),
    Interruption(
        "that for more than `train.max_returns` times",
        "1",
        (
            "`run: epoch 2 diverged: the loss is nan in more batches than ...`, with the learning"
            " rate to lower and the utterances to look at"
        ),
        "the epoch before, and `best.pt`",
        ("train/test_not_finite.py::test_run_goes_back_so_often_and_then_stops_with_a_report",),
    ),
)
