"""The processes of a run: started, joined, and written down."""
