"""What the shipped annotator and judge are taught with: pictures, attention maps, losses, their examination.

`recipes/annotator.py` has the stages, and appendix A5 shows them.
"""
