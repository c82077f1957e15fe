"""What every command shares: errors, exit statuses, files, units."""
