"""Networks beside others that use the memory: hogs, what holds them back, and what it is worth."""
