"""Recipes: their stages, and whether a training would start."""
