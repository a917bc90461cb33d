"""Tasks: what a network learns, a folder for each, and what follows from that.

`task.Task` is what every verb asks, without torch; `train.task_training.TaskTraining` is what a
training asks.
"""
