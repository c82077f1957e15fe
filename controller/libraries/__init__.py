"""Searchers of other libraries: Optuna (TPE) and pymoo (NSGA-II)."""
