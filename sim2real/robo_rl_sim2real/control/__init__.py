"""The control loop's inside: no transport, no clock of its own."""
