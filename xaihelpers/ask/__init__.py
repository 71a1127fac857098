"""Ask any vision-language model: a local one of Hugging Face, or one behind an OpenAI-compatible server."""
from .asking import annotators, ask, load_annotator
from .chats import Answer, AskError, Request, Turn, request
from .prompts import lettered, prompt

__all__ = ["Answer", "AskError", "Request", "Turn", "annotators", "ask", "lettered", "load_annotator", "prompt", "request"]
