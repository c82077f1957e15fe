"""One optimisation step: on one device, captured as a CUDA graph, or shared by several processes."""
