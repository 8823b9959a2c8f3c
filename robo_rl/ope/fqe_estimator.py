"""Estimator ``fqe``: what the policy's own values say of the data's starts."""

from __future__ import annotations

from typing import ClassVar

from robo_rl.ope.estimator import OpeCase
from robo_rl.ope.fqe import ValueEstimate


class FqeEstimator:
    """See ``ope.fqe``, whose settings are the judge's: it is not alone in asking those values."""

    needs_dynamics: ClassVar = False

    def estimate(self, case: OpeCase) -> ValueEstimate:
        """See ``Fqe.estimate``."""
        return case.values.estimate()
