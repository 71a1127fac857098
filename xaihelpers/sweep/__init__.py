"""A notebook over a grid of parameters: on this machine, in parts of an array job, or on a Ray cluster."""
