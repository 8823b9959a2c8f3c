"""Off-policy evaluation (OPE): estimates a policy's value from data of another policy."""
