"""The command ``python FOLDER SOCKET [--log-dir DIR] [--private]``; FOLDER is this file's folder.

Any Python runs it: the folder becomes the package ``robo_rl_serve``, without its parent robo_rl.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = "robo_rl_serve"


def _load_package() -> None:
    """Make the folder importable as ``robo_rl_serve``, for its own files and for adapters."""
    path = os.path.join(_HERE, "__init__.py")
    found = importlib.util.spec_from_file_location(
        _PACKAGE, path, submodule_search_locations=[_HERE]
    )
    spec: Any = found
    sys.modules[_PACKAGE] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


if __name__ == "__main__":
    if sys.version_info < (3, 10):  # noqa: UP036  any interpreter may run this
        sys.exit(f"needs Python 3.10 or later, and this is {sys.version.split()[0]}")
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
    _load_package()
    importlib.import_module(f"{_PACKAGE}.server").main()
