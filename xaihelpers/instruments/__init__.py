"""The shipped annotator and the shipped judge: an eye that was taught on drawn pictures, and words for what
it finds. Neither has a language model: what they say is written from what the eye answers, so they cannot say
what is usual instead of what is there. `ask.load_vlm` loads them by name; appendix A5 shows how they learn.
"""

from xaihelpers.instruments.annotator import Annotator
from xaihelpers.instruments.attention_judge import AttentionJudge
from xaihelpers.instruments.eye import GROUPS

FORM = 1  # of what they say: answers are kept under it, so change it with the words
