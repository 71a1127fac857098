"""What yardsticks are themselves measured by: planted models, maps, annotators; examinations and controls."""
