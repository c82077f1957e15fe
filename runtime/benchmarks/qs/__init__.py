"""Comparison of dispatch modes on the workloads of Lim & Kim."""
