"""Mistakes of the person at the keyboard, and the full disk: what is told apart from faults of the program."""

import errno


class UserError(Exception):
    """Something the user can put right: the message says what and how, in one or two lines, and is all they see.

    The command line prints the message without a traceback; the traceback goes to the log file.
    """


def first_line(error: BaseException) -> str:
    """What an error of a library says, in one line; its kind where it says nothing."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def in_brackets(error: BaseException) -> str:
    """The same without the marks at its end, to stand inside a sentence."""
    return first_line(error).rstrip(":. ")


def is_disk_full(error: BaseException) -> bool:
    """Whether `error` says that no space is left on the disk.

    Libraries that write files themselves (safetensors, Arrow) have errors of their own without an `errno`; they keep
    the system's words.
    """
    return getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error)
