"""The one exception for what a user can mend."""


class InputError(ValueError):
    """Bad input: the message names the file, the utterance and the numbers, and says what to do.

    The command line prints it as one line and exits with status 1.
    """
