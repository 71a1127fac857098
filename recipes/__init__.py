"""How each shipped weight was made: a script for each, resumable, that writes the weights and their card."""
