"""The loops, the stages and the evidence."""
