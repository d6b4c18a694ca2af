"""What the two references share: when a drawn configuration is a case."""

MIN_GAP = 1e-4  # Relative, between the last expert chosen and the next.
MOST_TRIES = 12  # Seeds of weights.


class NotACase(Exception):
    """The reference cannot say what this configuration means."""
