"""Asking, and the cache of answers: asked once, kept one by one."""

import json
import logging
import multiprocessing
from contextlib import closing

import diskcache
import pytest
from PIL import Image

from xaihelpers import ask, paths
from xaihelpers.ask import cache


class Model:
    """Answers with the question's last word; fails where told to."""

    def __init__(self, identity="m 1", fails=(), stops_after=None):
        self.name, self.identity, self.fails, self.stops_after = "m", identity, set(fails), stops_after
        self.asked = []

    def answer(self, requests, seed, temperature):
        for position in reversed(range(len(requests))):  # in an order of its own
            if self.stops_after is not None and len(self.asked) >= self.stops_after:
                raise KeyboardInterrupt
            word = requests[position].text.split()[-1]
            self.asked.append(word)
            answer = ask.Answer(f"{word}, {seed}", "because", {"A": 0.7}, 1000, 10, 0.5, True)
            yield position, ask.Answer(error="broken") if word in self.fails else answer


@pytest.fixture(autouse=True)
def answers_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")
    return tmp_path / "cache" / "answers"


def words(n):
    return [ask.request(f"question w{i}") for i in range(n)]


def texts(n):
    return [f"w{i}, 0" for i in range(n)]


def asked_texts(requests, model=None):
    return [answer.text for answer in ask.ask(model or Model(), requests)]


def test_answers_come_in_the_order_of_the_requests_and_equal_ones_are_asked_once(caplog, answers_folder):
    caplog.set_level(logging.INFO, "xaihelpers")
    model = Model()
    answers = ask.ask(model, [*words(5), *words(3)])
    assert [answer.text for answer in answers] == [*texts(5), *texts(3)]
    assert sorted(model.asked) == [f"w{i}" for i in range(5)]
    again = Model()
    kept = ask.ask(again, words(5))
    assert again.asked == [] and kept == answers[:5], "with all that is in them"
    assert caplog.messages == ["m: 5 asked, 0 from the cache", "m: 0 asked, 5 from the cache"]
    with diskcache.Cache(answers_folder, disk=diskcache.JSONDisk) as kept:  # as docs/YOUR_OWN.md reads it
        rows = [json.loads(kept.get(key, tag=True)[1]) | kept[key] for key in kept]
    assert ("question w1", "w1, 0") in [(row["question"], row["text"]) for row in rows]


def test_what_an_answer_depends_on_is_asked_anew(tmp_path):
    model, picture, other = Model(), tmp_path / "red.png", tmp_path / "other.png"
    Image.new("RGB", (6, 4), (200, 10, 10)).save(picture)
    Image.new("RGB", (6, 4), (10, 10, 200)).save(other)
    base = ["which w", picture, "AB", 5]
    ask.ask(model, [ask.request(*base)])
    for place, changed in enumerate(("which v", other, "ABC", 6)):
        ask.ask(model, [ask.request(*base[:place], changed, *base[place + 1 :])])
    ask.ask(model, [ask.request("which w", [picture, picture], "AB", 5)])
    ask.ask(model, [ask.request(*base)], seed=1)
    ask.ask(model, [ask.request(*base)], temperature=0.5)
    assert len(model.asked) == 8
    ask.ask(model, [ask.request("which w", picture.rename(tmp_path / "renamed.png"), "AB", max_tokens=5)])
    assert len(model.asked) == 8, "only the content of an image counts"
    retrained = Model("m 2")
    ask.ask(retrained, [ask.request("which w", tmp_path / "renamed.png", "AB", 5)])
    assert len(retrained.asked) == 1


def test_an_interruption_keeps_what_came_and_the_next_run_goes_on(caplog):
    caplog.set_level(logging.INFO, "xaihelpers")
    broken, whole = Model(stops_after=3), Model()
    with pytest.raises(KeyboardInterrupt):
        ask.ask(broken, words(8))
    assert caplog.messages == ["m: 3 asked, 0 from the cache, 5 left"]
    assert asked_texts(words(8), whole) == texts(8)
    assert not set(whole.asked) & set(broken.asked) and len(whole.asked) == 5


def test_errors_are_counted_logged_and_asked_again(caplog, capsys):
    caplog.set_level(logging.INFO, "xaihelpers")
    answers = ask.ask(Model(fails=["w1", "w3"]), words(5), progress=False)
    assert [bool(answer.error) for answer in answers] == [False, True, False, True, False]
    assert "2 without an answer (first: broken)" in caplog.text and "".join(capsys.readouterr()) == ""
    again = Model()
    assert not any(answer.error for answer in ask.ask(again, words(5)))
    assert sorted(again.asked) == ["w1", "w3"] and "asking m" in capsys.readouterr().err


def test_a_damaged_file_is_set_aside_and_a_new_one_begun(answers_folder, caplog):
    asked_texts(words(40))
    file = answers_folder / "cache.db"
    for damaged in (b"not a database" * 1000, file.read_bytes()[: file.stat().st_size // 2]):
        file.write_bytes(damaged)
        assert asked_texts(words(40)) == texts(40)
        again = Model()
        assert asked_texts(words(40), again) == texts(40) and again.asked == [], "kept in the new file"
        assert (answers_folder.with_name("answers.damaged") / "cache.db").read_bytes() == damaged
    assert "is damaged" in caplog.text


def test_where_answers_cannot_be_kept_nothing_more_is_asked(monkeypatch, answers_folder):
    write, model = diskcache.Cache.set, Model()

    def refuse(kept, key, value, **more):
        if len(model.asked) > 2:
            raise OSError(28, "No space left on device")
        return write(kept, key, value, **more)

    with monkeypatch.context() as full:
        full.setattr(diskcache.Cache, "set", refuse)
        with pytest.raises(ask.AskError, match="cannot be kept in .*No space left on device.*make room"):
            ask.ask(model, words(9))
    again = Model()
    assert asked_texts(words(9), again) == texts(9) and len(again.asked) == 7, "what was kept stays"
    monkeypatch.setattr(paths, "cache_home", lambda: answers_folder / "cache.db")
    with pytest.raises(ask.AskError, match="cannot be kept in .*set XAI_DATA"):
        ask.ask(model, words(1))


def keep_a_hundred(name):
    model = Model(f"{name} 1")
    requests = words(100)
    for start in range(0, 100, 10):
        ask.ask(model, requests[start : start + 10], progress=False)


def test_two_processes_write_into_one_file():
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=keep_a_hundred, args=(name,)) for name in "ab"]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    for name in "ab":
        again = Model(f"{name} 1")
        assert asked_texts(words(100), again) == texts(100) and again.asked == []
    with closing(cache.open_cache()[0]) as kept:
        assert len(kept) == 200
