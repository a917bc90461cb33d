"""A number for each frame, by the squared error: a task as a newcomer would add it."""
