"""Evaluation of finished searches: learning curves, measures, statistics over seeds, charts."""
