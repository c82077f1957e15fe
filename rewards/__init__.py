"""Published objectives, one a file: arrays of accuracy and latency in, an array out."""
