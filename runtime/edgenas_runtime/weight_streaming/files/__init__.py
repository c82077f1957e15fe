"""Weight files and their readers."""
