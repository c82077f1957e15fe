"""Runs the timetables of a frame on this machine and compares them with their plan."""
