"""Hardware-aware neural architecture search: the space, the sources, the loop, the commands."""
