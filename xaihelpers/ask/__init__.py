"""Ask any vision-language model: a local one of Hugging Face, one behind an OpenAI-compatible server, or a
function of your own."""

from xaihelpers.ask.cache import ask, ask_whole
from xaihelpers.ask.loading import load_vlm, vlm_loader
from xaihelpers.ask.messages import Answer, AskError, Request, failure_kind, lettered_options, prompt, request
