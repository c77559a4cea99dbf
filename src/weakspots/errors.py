"""Mistakes of the person at the keyboard, and the full disk: what is told apart from faults of the program."""

import errno


class UserError(Exception):
    """Something the user can put right: the message says what and how, in one or two lines, and is all they see.

    The command line prints the message without a traceback; the traceback goes to the log file.
    """


def is_disk_full(error: BaseException) -> bool:
    """Whether `error` says that no space is left on the disk.

    Libraries that write files themselves (safetensors, Arrow) have errors of their own without an `errno`; they keep
    the system's words.
    """
    return getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error)
