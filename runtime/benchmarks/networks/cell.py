"""A cell of NAS-Bench-201 with all five operations."""

EVERY_OPERATION = (
    "avg_pool_3x3",
    "nor_conv_1x1",
    "skip_connect",
    "nor_conv_3x3",
    "none",
    "skip_connect",
)
