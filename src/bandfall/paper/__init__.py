"""The paper, reproduced: its published numbers and the statistics behind its figures and tables."""
