"""Off-policy evaluation: what a policy is worth, of data that another one made."""
