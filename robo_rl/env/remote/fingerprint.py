"""Fingerprint of a simulator in another interpreter: the adapter and its dependencies."""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache
from pathlib import Path

from robo_rl.config.fingerprint import Fingerprint
from robo_rl.core.errors import DeviceError
from robo_rl.env import serve

_IMPORTS = re.compile(r"^\s*(?:from|import)\s+(\w+)|import_module\(\s*[\"'](\w+)", re.MULTILINE)
_TIMEOUT_S = 60.0
_ASK = """
import json, re, sys
from importlib import metadata
owners = metadata.packages_distributions()
used = {name for module in sys.argv[1:] for name in owners.get(module, ())}
for name in list(used):
    needs = [need for need in metadata.requires(name) or () if "extra ==" not in need]
    used |= {re.match(r"[\\w.-]+", need).group() for need in needs}
found = {d.metadata["Name"]: d.version for d in metadata.distributions()}
plain = {re.sub(r"[-_.]+", "-", name).lower() for name in used}
keep = {n: v for n, v in found.items() if re.sub(r"[-_.]+", "-", n).lower() in plain}
print(json.dumps(keep, sort_keys=True))
"""


def remote_fingerprint(adapter: str, python: str | None, *, own: bool) -> Fingerprint:
    """Return the fingerprint of an adapter and of the distributions that it imports.

    The requirements of these distributions are included.

    Args:
        adapter: The name of a built-in adapter, or the path of a custom one.
        python: The interpreter; None for a running server, whose versions are unknown.
        own: Whether the adapter is a custom one.

    Raises:
        DeviceError: The interpreter does not report its packages.
    """
    path = Path(adapter) if own else Path(serve.__file__).parent / f"{adapter}_world.py"
    sources = (str(path),) if own else ()
    if python is None:
        return Fingerprint(sources)
    names = {name for pair in _IMPORTS.findall(path.read_text()) for name in pair if name}
    return Fingerprint(sources, _versions(python, tuple(sorted(names))))


@cache
def _versions(python: str, modules: tuple[str, ...]) -> dict[str, str]:
    try:
        done = subprocess.run(
            [python, "-I", "-c", _ASK, *modules],
            capture_output=True,
            text=True,
            check=True,
            timeout=_TIMEOUT_S,
        )
        return dict(json.loads(done.stdout))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        problem = "the interpreter does not say what is installed in it"
        raise DeviceError(problem, where=python, found=error) from error
