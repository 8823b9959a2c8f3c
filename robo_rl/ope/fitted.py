"""Estimator ``fqe``: what the policy's own values say of the data's starts."""

from __future__ import annotations

from typing import ClassVar

from robo_rl.ope.estimator import Case
from robo_rl.ope.fqe import Estimate


class Fitted:
    """See ``ope.fqe``, whose settings are the judge's: it is not alone in asking those values."""

    imagines: ClassVar = False

    def estimate(self, case: Case) -> Estimate:
        """See ``Fqe.estimate``."""
        return case.values.estimate()
