"""Evidence: benchmarks, reproductions of papers, studies, and how embedded models are fitted."""
