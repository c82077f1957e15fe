"""The model of memory policies: parameters, overheads, guidelines and scheduler."""
