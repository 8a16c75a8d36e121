"""Starting a process that Ctrl-C reaches."""

import signal


def hears_ctrl_c() -> None:
    """For `preexec_fn`: a process that was started in the background of a shell ignores Ctrl-C, and hands that on.

    So does one that was started by nohup with the signal of a closed terminal.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
