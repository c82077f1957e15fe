"""Prediction of layer times."""
