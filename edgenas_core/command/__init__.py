"""The entry of every command: settings, console, exit status, plug-ins."""
