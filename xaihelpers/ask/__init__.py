"""Ask any vision-language model: a local one of Hugging Face, or one behind an OpenAI-compatible server."""
from .asking import ask, load_annotator
from .chats import Answer, AskError, Request, Turn, request

__all__ = ["Answer", "AskError", "Request", "Turn", "ask", "load_annotator", "request"]
