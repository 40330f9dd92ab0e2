"""Entry point of a launch in a new interpreter (`--isolation exec`, for profilers) instead of a fork.

Reads the LaunchSpec from standard input, because a command line is visible to every user of the machine.
"""

import signal
import sys
from typing import NoReturn

from protocol import codec
from protocol.messages import LaunchSpec
from worker import adopt, preload, session


def main() -> NoReturn:
    """Run the launch whose LaunchSpec is on standard input, and exit with its WorkerExit."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    spec = codec.decode(sys.stdin.buffer.read(), LaunchSpec)
    fault_log = adopt.become(spec, born_of=spec.parent_pid)
    adopt.check_rooms(spec.root)
    preload.import_all(spec.preload)
    session.run(spec, fault_log)


if __name__ == "__main__":
    main()
