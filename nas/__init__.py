"""Hardware-aware neural architecture search: the space, the sources, the loop, the commands."""

import edgenas_core as _edgenas_core  # noqa: F401 - checks that no file of the user hides a package
