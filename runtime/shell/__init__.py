"""Parts that all commands share: errors, exit statuses, files, units."""
