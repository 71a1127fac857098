"""The yardsticks of a scorecard, and what they are themselves measured by: planted faults, examinations, controls."""
