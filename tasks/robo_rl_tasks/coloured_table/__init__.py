"""A table with coloured objects, and instructions about them."""
