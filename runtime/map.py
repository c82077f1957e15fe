"""How long may one more network take on this board, and where?

$ python -m runtime.map tasks=tasks.csv platform=board.yaml
"""

from __future__ import annotations

from runtime.mapping.command import main

if __name__ == "__main__":
    main()
