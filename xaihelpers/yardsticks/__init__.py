"""The yardsticks of a scorecard, and what measures them: planted faults, examinations, controls."""
