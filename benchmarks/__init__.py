"""What is measured with a stopwatch: notebook 81 and `make gpu` read it from here."""
