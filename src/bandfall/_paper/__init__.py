"""Reproduction of the paper: its experiments, published numbers and statistics."""
