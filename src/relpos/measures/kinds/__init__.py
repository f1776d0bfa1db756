"""The measures: each file holds one class that inherits from `Measure`, and its name is the measure's name."""
