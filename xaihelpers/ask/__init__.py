"""Ask any vision-language model: a local one of Hugging Face, one behind an OpenAI-compatible server, a
function of your own, or recorded answers."""

from xaihelpers.ask.batch_model import BatchModel
from xaihelpers.ask.cache import ask, load_vlm, vlm_loader
from xaihelpers.ask.local_model import LocalModel
from xaihelpers.ask.messages import (
    Answer,
    AskError,
    Request,
    Turn,
    data_url,
    open_image,
    request,
    request_keys,
    split_reasoning,
)
from xaihelpers.ask.prompt_files import lettered_options, prompt
from xaihelpers.ask.server_model import ServerModel
from xaihelpers.ask.vllm_model import VllmModel
from xaihelpers.ask.whole_answers import ask_whole

__all__ = [
    "Answer",
    "AskError",
    "BatchModel",
    "LocalModel",
    "Request",
    "ServerModel",
    "Turn",
    "VllmModel",
    "ask",
    "ask_whole",
    "data_url",
    "lettered_options",
    "load_vlm",
    "open_image",
    "prompt",
    "request",
    "request_keys",
    "split_reasoning",
    "vlm_loader",
]
