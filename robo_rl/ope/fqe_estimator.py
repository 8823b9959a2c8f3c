"""Estimator ``fqe``: the fitted Q values at the starts of the data."""

from __future__ import annotations

from typing import ClassVar

from robo_rl.ope.estimator import OpeCase
from robo_rl.ope.fqe import ValueEstimate


class FqeEstimator:
    """Fitted Q evaluation, see ``ope.fqe``; its settings belong to the OPE evaluator."""

    needs_dynamics: ClassVar = False

    def estimate(self, case: OpeCase) -> ValueEstimate:
        """Return ``Fqe.estimate`` of the case's fitted values."""
        return case.values.estimate()
