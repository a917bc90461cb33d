"""What all rooms stand on: errors, files, locks, messages, processes, other programs."""
