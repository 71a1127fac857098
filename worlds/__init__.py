"""Drawn worlds: the aviary and the everyday world, in CUB-200-2011's format with the mask of every part."""
