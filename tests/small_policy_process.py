"""A policy process under a watchdog, for tests that kill it; it hangs once a file is there, for the
seconds in it.

python tests/small_policy_process.py BUNDLE SETTINGS HANG [KEY=VALUE ...]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from robo_rl.bundle.bundle import Bundle
from robo_rl_sim2real.cli.deploy import connected_node, read_settings, rest_on_exit
from robo_rl_sim2real.cli.watchdog import with_watchdog
from robo_rl_sim2real.watchdog.job import UnfinishedOutputs


def main(bundle: Path, settings: str, hang: Path, overrides: list[str]) -> None:
    """Run until it is killed, or ends in order by a signal."""
    loaded = Bundle.load(bundle)
    chosen = read_settings(settings, loaded.manifest.contract, overrides)

    def after_a_tick() -> bool:
        if node.record.count % 10 == 0:
            node.request("activate")
        if hang.exists():
            seconds = float(hang.read_text() or 3600.0)  # a busy machine, or a deadlock
            hang.unlink()
            time.sleep(seconds)
        return False

    with (
        connected_node(chosen, loaded, dry_run=False) as node,
        with_watchdog(node, chosen, UnfinishedOutputs(health=str(hang.with_name("health.json")))),
        rest_on_exit(node),
    ):
        node.run(after_a_tick)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
