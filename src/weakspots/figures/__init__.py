"""Figures and tables: a tidy table in, a seaborn figure out. One module per figure of the paper."""
