"""What all packages use; it imports none of them."""
