"""Figures and tables for a paper, from the page of a run or a study."""
