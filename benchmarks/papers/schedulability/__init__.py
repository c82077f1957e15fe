"""The schedulability study."""
