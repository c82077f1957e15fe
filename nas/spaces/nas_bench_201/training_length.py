"""How long the benchmark's networks were trained: 200 epochs, or 12 as a cheaper signal."""

from nas.spaces.nas_bench_201.space import ACCURACY_TABLE

FULL_EPOCHS, SHORT_EPOCHS = ACCURACY_TABLE.epochs
