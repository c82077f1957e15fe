"""Search spaces, each a plug-in."""
