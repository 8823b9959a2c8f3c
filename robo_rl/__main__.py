"""``python -m robo_rl`` is ``robo-rl``."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from robo_rl.cli.main import ON_ROBOTS, main


def run() -> NoReturn:
    """The command line as a process of its own, to its end.

    A verb on a robot, and a process that trains with others, has closed all that it opened by the
    time it comes back, and ends there and then: the threads of a library, which the interpreter
    would wait for, do not keep it, and none that outlives the interpreter aborts what is done.
    """
    status = main()
    verb = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    if verb not in ON_ROBOTS and os.environ.get("WORLD_SIZE", "1") == "1":
        sys.exit(status)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


if __name__ == "__main__":
    run()
