"""Stages that train a student on a teacher, at the states that the student visits."""
