"""The ground floor: errors, files, locks, messages, processes, other programs."""
