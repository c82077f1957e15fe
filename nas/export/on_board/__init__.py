"""Scripts that lie in an export as they are here; they need no edgenas and no torch."""
