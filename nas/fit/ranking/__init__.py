"""The staged search on own images: latency, proxies, short trainings, longer ones, the winner."""
