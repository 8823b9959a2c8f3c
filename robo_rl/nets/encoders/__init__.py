"""Encoders of observations: vectors and images in, one feature vector out."""
