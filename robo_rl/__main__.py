"""``python -m robo_rl`` is ``robo-rl``."""

import sys

from robo_rl.cli.main import main

sys.exit(main())
