"""How the shipped CLIPs are taught, and what is measured of any: birds, captions, networks, measures."""
