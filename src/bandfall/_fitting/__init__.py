"""Final fits: trains what a search has chosen."""
