"""Which policy training keeps, and when it goes back."""
