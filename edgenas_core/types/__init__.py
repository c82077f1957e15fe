"""Types that travel between packages: tasks, kinds of numbers, units, errors."""
