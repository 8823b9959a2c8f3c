"""Topics and services over Cyclone DDS."""
