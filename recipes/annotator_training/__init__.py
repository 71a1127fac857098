"""What the shipped annotator and judge are taught with: pictures, attention maps, losses, their examination.

`recipes/annotator.py` has the stages, and notebook 93 shows them.
"""
