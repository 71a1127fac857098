"""Things to touch: boards of controls and a picture, each of the notebook's own arrays and tables."""
