"""What a suite is: its file, cells and layers."""
