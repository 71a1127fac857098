"""What a model thinks is told from what it answers, by the marks that models put between the two.

    a thought   <think>  <thinking>  <reasoning>  <seed:think>  <|begin_of_thought|>  [THINK]  ◁think▷
                <|channel|>analysis  <|channel>thought  <|open|>think<|sep|>  Here is my thought process:
    an answer   <answer>  <output>  <CONCLUSION>  <|begin_of_solution|>  <|begin_of_box|>
                <|channel|>final  <|open|>response<|sep|>  [BEGIN FINAL RESPONSE]  Here is my response:

Where an answer is marked, nothing else is one. A thought that is not closed goes on to the end.
"""

import re
from typing import NamedTuple

# what the name of a mark has in it; of Qwen's `<box>`, a place in a picture, an answer's is told by "of_"
THOUGHT = re.compile(
    r"think|thought|reason|reflect|analys|scratch|(?<![a-z])inner|monolog|deliberat|rational|critique|verif"
    r"|draft|plan|descri|observ|percept|caption|summary|details|(?<![a-z])steps?(?![a-z])",
    re.I,
)
ANSWER = re.compile(r"answer|solution|conclusion|response|output|final|of_box", re.I)
CLOSING = re.compile(r"(?:\b|_)(?:end|stop|close|suffix)(?:\b|_)", re.I)
MARK = re.compile(
    r"""
    <\|channel\|?>\s*(?P<channel>\w*)(?:[^<\n]{0,40}(?:<\|constrain\|>\w+)?<\|message\|>)?
    | (?P<closed><channel\|>)
    | (?P<between><\|(?:message|end|return|sep)\|> | <\|start\|>\w*)
    | <\|(?P<form>open|close)\|>\s*(?P<element>\w*)(?:\s*<\|sep\|>)?
    | [<◁][|｜]?(?P<slash>/?)(?P<name>[\w:.-]+)(?:\s+\w+=[^<>\n]*)?[|｜]?[>▷]
    | \[(?P<bar>/?)(?P<capitals>[A-Z_]+(?:[ ][A-Z]+)*)\]
    | (?P<phrase>(?i:\bhere(?:\ is|\ are|['’]s)\ my\ (?:thought\ process|reasoning\ steps|response):))
    | ^\#\#+\ *(?P<heading>(?i:thinking|final\ (?:response|answer)))[ ]*$
    """,
    re.M | re.X,
)
CHANNELS = re.compile(r"assistant(analysis|commentary|final)(?=\S)")


class _Mark(NamedTuple):
    of: str  # "thought", "answer", or "between" of messages
    name: str
    closes: bool
    loose: bool  # it has no closing mark of its own


def _meaning(found: re.Match) -> _Mark | None:
    """What a match of `MARK` means; None of any other tag."""
    if found["between"]:
        return _Mark("between", "", True, False)
    if found["closed"]:
        return _Mark("thought", "channel", True, False)
    if found["channel"] is not None:
        of = "answer" if found["channel"] == "final" else "thought"
        return _Mark(of, "channel", False, True)
    name = found["element"] or found["name"] or found["capitals"] or found["phrase"] or found["heading"] or ""
    closes = bool(found["slash"] or found["bar"] or found["form"] == "close" or CLOSING.search(name))
    for of, words in (("thought", THOUGHT), ("answer", ANSWER)):
        if word := words.search(name):
            return _Mark(of, word[0].lower(), closes, bool(found["phrase"] or found["heading"]))
    return None


def is_mark(token: str) -> bool:
    """Whether a token is a mark, or a part of one."""
    found = MARK.search(token)
    return bool(found) and (bool(found["form"]) or _meaning(found) is not None)


def opened_by(prompt: str) -> str:
    """The mark with which a prompt ends and by which it opens the model's thought; empty without one."""
    found = [match for match in MARK.finditer(prompt) if _meaning(match)]
    if not found or prompt[found[-1].end() :].strip():
        return ""
    mark = _meaning(found[-1])
    return found[-1][0] if mark.of == "thought" and not mark.closes else ""


def split_reasoning(text: str, reasoning: str = "") -> tuple[str, str]:
    """Separate a model's output into answer and reasoning.

    text: the output. What stands in the marks of a thought, closed or not, is reasoning, and all that lies
        before a closing mark without an opening one, for which a chat template has opened the thought. Where
        an answer is marked, all around it is reasoning, too.
    reasoning: what a server has separated already; it comes first.
    """
    if re.match(r"analysis(?=[A-Z])", text):  # of channels, whose own marks a server has taken out
        text = "<|channel|>analysis<|message|>" + text.removeprefix("analysis")
        text = CHANNELS.sub(r"<|end|><|channel|>\1<|message|>", text)
    pieces: list[list[str]] = []  # each with what it is of: "", "answer" or "thought"
    here, around, start = "", "", 0
    opened, within = _Mark("", "", False, False), []  # the mark of the thought; the names opened inside of it

    def end_piece(place: int) -> None:
        pieces.append([here, text[start:place]])

    for found in MARK.finditer(text):
        mark = _meaning(found)
        if mark is None:
            continue
        if here == "thought":
            leaves = opened.loose and mark.of in ("answer", "between")
            if mark.of == "thought" and not mark.closes and mark.name != opened.name:
                within.append(mark.name)
            elif mark.of == "thought" and mark.closes and mark.name in within:
                within.remove(mark.name)
            elif leaves or (mark.of == "thought" and mark.closes):
                end_piece(found.start())
                here, start = ("answer" if mark.of == "answer" else around), found.end()
            continue
        end_piece(found.start())
        start = found.end()
        if mark.of == "thought" and mark.closes:
            pieces = [["thought", piece] for _, piece in pieces]
            here = ""
        elif mark.of == "thought":
            here, around, opened, within = "thought", here, mark, []
        elif mark.of == "answer":
            here = "" if mark.closes else "answer"
    end_piece(len(text))
    is_marked = any(of == "answer" for of, _ in pieces)
    thoughts = [reasoning, *(piece for of, piece in pieces if of == "thought" or (is_marked and not of))]
    said = [piece for of, piece in pieces if of == ("answer" if is_marked else "")]
    if is_marked:
        said = ["\n".join(filter(None, map(str.strip, said)))]
    return "".join(said).strip(), "\n".join(filter(None, map(str.strip, thoughts)))
