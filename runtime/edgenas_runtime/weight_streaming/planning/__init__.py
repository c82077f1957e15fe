"""Memory against delay: plans for weight streaming."""
