"""Mistakes of the person at the keyboard, as opposed to faults of the program."""


class UserError(Exception):
    """Something the user can put right: the message says what and how, in one or two lines, and is all they see.

    The command line prints the message without a traceback; the traceback goes to the log file.
    """
