"""Asking, and the cache of answers: asked once, kept one by one, nothing lost whatever befalls the file."""

import logging
import multiprocessing
import os
import shutil
import sqlite3
from collections import Counter
from contextlib import closing

import diskcache
import pytest
from PIL import Image

from xaihelpers import ask, paths
from xaihelpers.ask import cache as cache_module
from xaihelpers.ask.cache import AnswersOnDisk


class Model:
    """Answers with the question's last word; fails where told to."""

    def __init__(self, identity="m 1", fails=(), stops_after=None):
        self.name, self.identity, self.fails, self.stops_after = "m", identity, set(fails), stops_after
        self.asked, self.warnings = [], Counter()

    def answer(self, requests, seed, temperature):
        self.warnings = Counter()
        for position in reversed(range(len(requests))):  # in an order of its own
            if self.stops_after is not None and len(self.asked) >= self.stops_after:
                raise KeyboardInterrupt
            word = requests[position].turns[-1].text.split()[-1]
            self.asked.append(word)
            answer = ask.Answer(f"{word}, {seed}", tokens_in=1000, tokens_out=10, seconds=0.5)
            yield position, ask.Answer(error="broken") if word in self.fails else answer


@pytest.fixture(autouse=True)
def answers_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache_home", lambda: tmp_path / "cache")
    return tmp_path / "cache" / "answers"


@pytest.fixture
def logged():
    """All that the package logs, as a list of messages."""
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logger = logging.getLogger("xaihelpers")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield messages
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.fixture
def picture(tmp_path):
    Image.new("RGB", (6, 4), (200, 10, 10)).save(tmp_path / "red.png")
    return tmp_path / "red.png"


def words(n):
    return [ask.request(f"question w{i}") for i in range(n)]


def texts(n):
    return [f"w{i}, 0" for i in range(n)]


def asked_texts(requests, model=None):
    return [answer.text for answer in ask.ask(model or Model(), requests)]


class TestAsking:
    def test_answers_come_in_the_order_of_the_requests_and_equal_ones_are_asked_once(self, logged):
        model = Model()
        answers = ask.ask(model, [*words(5), *words(3)])
        assert [answer.text for answer in answers] == [*texts(5), *texts(3)]
        assert sorted(model.asked) == [f"w{i}" for i in range(5)]
        assert logged == ["m: 5 asked, 0 from the cache"]

    def test_a_rerun_asks_nothing_and_gives_the_same(self, logged):
        first, again = ask.ask(Model(), words(4)), Model()
        second = ask.ask(again, words(4))
        assert again.asked == [] and first == second
        assert [answer.cached for answer in (*first, *second)] == [False] * 4 + [True] * 4
        assert logged[-1] == "m: 0 asked, 4 from the cache"

    def test_what_an_answer_depends_on_is_asked_anew(self, picture, tmp_path):
        model, other = Model(), tmp_path / "other.png"
        Image.new("RGB", (6, 4), (10, 10, 200)).save(other)
        base = ask.request("which w", picture, "AB", max_tokens=5)
        ask.ask(model, [base])
        others = [
            ask.request("which v", picture, "AB", max_tokens=5),
            ask.request("which w", other, "AB", max_tokens=5),
            ask.request("which w", (), "AB", max_tokens=5),
            ask.request("which w", picture, "ABC", max_tokens=5),
            ask.request("which w", picture, "AB", max_tokens=6),
            ask.request("which w", picture, "AB", "Be short.", 5),
            ask.request("which w", [picture, picture], "AB", max_tokens=5),
        ]
        ask.ask(model, others)
        ask.ask(model, [base], seed=1)
        ask.ask(model, [base], temperature=0.5)
        assert len(model.asked) == 1 + len(others) + 2
        same = tmp_path / "renamed.png"
        same.write_bytes(picture.read_bytes())
        ask.ask(model, [ask.request("which w", same, "AB", max_tokens=5)])
        assert len(model.asked) == 1 + len(others) + 2, "only the content of an image counts"
        retrained = Model("m 2")
        ask.ask(retrained, [base])
        assert len(retrained.asked) == 1

    def test_an_interruption_keeps_what_came_and_the_next_run_goes_on(self, logged):
        broken, whole = Model(stops_after=3), Model()
        with pytest.raises(KeyboardInterrupt):
            ask.ask(broken, words(8))
        assert logged == ["m: 3 asked, 0 from the cache, 5 left"]
        assert asked_texts(words(8), whole) == texts(8)
        assert not set(whole.asked) & set(broken.asked) and len(whole.asked) == 5

    def test_errors_are_counted_logged_and_asked_again(self, logged):
        answers = ask.ask(Model(fails=["w1", "w3"]), words(5), progress=False)
        assert [bool(answer.error) for answer in answers] == [False, True, False, True, False]
        assert "2 without an answer (first: broken)" in logged[-1], "logged without progress, too"
        again = Model()
        assert not any(answer.error for answer in ask.ask(again, words(5)))
        assert sorted(again.asked) == ["w1", "w3"]

    def test_the_warnings_of_a_model_are_those_of_this_call(self, logged):
        model = Model()
        ask.ask(model, words(1))
        model.warnings["hiccups"] = 3  # of a call before
        ask.ask(model, words(1))
        assert not any("hiccups" in line for line in logged)

    def test_price_makes_the_cost_of_fresh_and_kept_answers(self):
        for price, cost in (((2.0, 30.0), 0.0023), ((4.0, 60.0), 0.0046), ((0.0, 0.0), 0.0)):
            answers = ask.ask(Model(), words(2), price=price)
            assert [answer.cost for answer in answers] == pytest.approx([cost] * 2)

    def test_progress_shows_tokens_and_cost(self, capsys, logged):
        ask.ask(Model(), words(3), price=(2.0, 30.0))
        shown = capsys.readouterr().err
        assert "asking m" in shown and "3,000 tokens in, 30 out, cost 0.0069" in shown
        logged.clear()
        ask.ask(Model(), words(4), progress=False)
        assert "".join(capsys.readouterr()) == "" and logged == []

    def test_everything_in_an_answer_is_kept(self):
        whole = ask.Answer("A", "because", {"A": 0.7, "B": 0.3}, 12, 3, 0.25, True)

        class One(Model):
            def answer(self, requests, seed, temperature):
                yield 0, whole

        ask.ask(One(), words(1))
        (kept,) = ask.ask(Model(), words(1))
        assert kept == whole and kept.cached and kept.choice == "A" and kept.truncated

    def test_nothing_to_ask(self):
        assert ask.ask(Model(), []) == []

    def test_images_that_cannot_be_read_are_named_before_anything_is_asked(self, tmp_path):
        model = Model()
        with pytest.raises(ask.AskError, match="missing.png: no image that can be read .*leave it out"):
            ask.ask(model, [*words(2), ask.request("q", tmp_path / "missing.png")])
        assert model.asked == []


class TestLoading:
    def test_the_ways_to_name_a_model(self, monkeypatch):
        monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        with pytest.raises(ask.AskError, match="server:gpt needs the address of a server in OPENAI_BASE_URL"):
            ask.load_vlm("server:gpt")
        with pytest.raises(ask.AskError, match="must be auto, cpu or cuda, not 'tpu'"):
            ask.load_vlm("anything", device="tpu")

    def test_one_model_at_a_time_is_held_beside_the_judge(self, monkeypatch):
        loaded = []

        def load(name, device, batch_size):
            loaded.append(name)
            return name.upper()

        monkeypatch.setattr(cache_module, "load_vlm", load)
        model_of = ask.vlm_loader("cpu", keep="judge")
        names = ["a", "judge", "a", "b", "judge", "a"]
        assert [model_of(name) for name in names] == [name.upper() for name in names]
        assert loaded == ["a", "judge", "b", "a"]


def damaged_folder(folder):
    return folder.with_name("answers.damaged")


class TestDamage:
    @pytest.mark.parametrize(
        "damage",
        [
            lambda content: b"not a database" * 1000,
            lambda content: content[: len(content) // 2],
            lambda content: content[:4096],
            lambda content: content[:1000],
            lambda content: content[:4096] + os.urandom(len(content) - 4096),
            lambda content: content[:100] + bytes(len(content) - 100),
        ],
        ids=["garbage", "half", "one page", "part of a page", "pages of noise", "pages of zeros"],
    )
    def test_a_damaged_file_is_set_aside_and_a_new_one_begun(self, damage, answers_folder, logged):
        asked_texts(words(40))
        file = answers_folder / "cache.db"
        content = file.read_bytes()
        file.write_bytes(damage(content))
        assert asked_texts(words(40)) == texts(40)
        again = Model()
        assert asked_texts(words(40), again) == texts(40) and again.asked == [], "kept in the new file"
        assert (damaged_folder(answers_folder) / "cache.db").is_file()
        assert sum("is damaged" in line and "set aside as answers.damaged" in line for line in logged) == 1
        assert not any("cannot be kept" in line for line in logged)

    @pytest.mark.parametrize(
        "statement",
        [
            "CREATE TABLE Cache (a)",
            "CREATE TABLE Settings (a)",
            "CREATE TABLE Cache (key, raw, store_time, expire_time, access_time, tag)",
            "CREATE VIEW Cache AS SELECT 1",
        ],
    )
    def test_tables_of_another_program_are_set_aside(self, statement, answers_folder, logged):
        answers_folder.mkdir(parents=True)
        with closing(sqlite3.connect(answers_folder / "cache.db")) as connection, connection:
            connection.execute(statement)
        assert asked_texts(words(4)) == texts(4)
        again = Model()
        assert asked_texts(words(4), again) == texts(4) and again.asked == [], "kept in the new file"
        assert (damaged_folder(answers_folder) / "cache.db").is_file()
        assert not any("cannot be kept" in line for line in logged)

    def test_an_empty_file_is_a_new_cache(self, answers_folder, logged):
        answers_folder.mkdir(parents=True)
        (answers_folder / "cache.db").write_bytes(b"")
        assert asked_texts(words(2)) == texts(2)
        assert not damaged_folder(answers_folder).exists() and len(logged) == 1

    def test_noise_in_the_journal_beside_the_file_is_passed_over(self, answers_folder):
        asked_texts(words(4))
        (answers_folder / "cache.db-journal").write_bytes(os.urandom(5000))
        again = Model()
        assert asked_texts(words(4), again) == texts(4) and again.asked == []

    def test_a_second_damage_replaces_what_was_set_aside(self, answers_folder):
        for content in (b"first" * 1000, b"second" * 1000):
            asked_texts(words(1))
            for file in answers_folder.glob("cache.db*"):
                file.write_bytes(content)
            asked_texts(words(1))
        assert (damaged_folder(answers_folder) / "cache.db").read_bytes() == b"second" * 1000

    @pytest.mark.parametrize("content", [b"garbage" * 3000, b"\0" * 100, b""])
    def test_a_file_damaged_while_it_is_open(self, content, answers_folder, logged):
        asked_texts(words(100))
        disk = AnswersOnDisk()
        assert disk.get("none") is None
        for file in answers_folder.glob("cache.db*"):
            file.write_bytes(content)
        disk.keep("key", ask.Answer("kept"))
        disk.close()
        assert not any("cannot be kept" in line for line in logged)
        again = AnswersOnDisk()
        assert again.get("key") == ask.Answer("kept")
        again.close()

    def test_a_row_that_cannot_be_read_is_asked_anew(self, answers_folder, logged):
        asked_texts(words(3))
        with diskcache.Cache(str(answers_folder), disk=diskcache.JSONDisk) as rows:
            keys = list(rows)
            rows[keys[0]] = {"text": "of another version", "unknown": 1}
            rows[keys[1]] = 5
        with sqlite3.connect(answers_folder / "cache.db") as connection:
            connection.execute("UPDATE Cache SET value = x'00' WHERE rowid = 3")
        again = Model()
        assert asked_texts(words(3), again) == texts(3) and len(again.asked) == 3
        assert not damaged_folder(answers_folder).exists()

    def test_a_value_whose_file_is_gone_is_asked_anew(self, answers_folder):
        long = ask.Answer("x " * 100_000 + str(list(range(20_000))))
        disk = AnswersOnDisk()
        disk.keep("key", long)
        assert disk.get("key") == long
        for file in answers_folder.rglob("*.val"):
            file.unlink()
        assert disk.get("key") is None
        disk.close()


class TestNoPlace:
    """Answers that cannot be kept are used all the same, and a warning says so once."""

    def check(self, logged, reason):
        assert asked_texts(words(4)) == texts(4)
        warnings = [line for line in logged if "Answers cannot be kept in" in line]
        assert len(warnings) == 1 and reason in warnings[0] and "Make room or permit" in warnings[0]

    def test_a_file_in_the_way(self, tmp_path, logged):
        (tmp_path / "cache").write_text("a file in the way")
        self.check(logged, "answers")
        assert (tmp_path / "cache").read_text() == "a file in the way"

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_read_only_folder(self, answers_folder, logged):
        answers_folder.mkdir(parents=True)
        answers_folder.chmod(0o555)
        self.check(logged, "unable to open database file")

    @pytest.mark.parametrize(
        "error",
        [
            sqlite3.OperationalError("attempt to write a readonly database"),
            sqlite3.OperationalError("database or disk is full"),
            sqlite3.OperationalError("disk I/O error"),
            OSError(28, "No space left on device"),
            OSError(30, "Read-only file system"),
            diskcache.Timeout("database is locked"),
        ],
        ids=str,
    )
    @pytest.mark.parametrize("from_the_first", [True, False])
    def test_a_place_that_cannot_be_written(self, error, from_the_first, monkeypatch, answers_folder, logged):
        kept, write = [], diskcache.Cache.set

        def refuse(cache, key, value, **more):
            if kept or from_the_first:
                raise error
            kept.append(key)
            return write(cache, key, value, **more)

        monkeypatch.setattr(diskcache.Cache, "set", refuse)
        self.check(logged, str(error))
        monkeypatch.undo()
        monkeypatch.setattr(paths, "cache_home", lambda: answers_folder.parent)
        assert not damaged_folder(answers_folder).exists(), "the file is sound"
        again = Model()
        assert asked_texts(words(4), again) == texts(4) and len(again.asked) == 4 - len(kept)

    def test_a_damaged_file_that_cannot_be_moved(self, answers_folder, monkeypatch, logged):
        answers_folder.mkdir(parents=True)
        (answers_folder / "cache.db").write_bytes(b"garbage" * 1000)
        monkeypatch.setattr(paths, "set_aside", lambda file, reason: None)
        self.check(logged, "file is not a database")


def hold_and_write(name, ready, go, messages):
    """A process that opens the cache, says so, and when told to writes 100 answers."""
    handler = logging.Handler()
    handler.emit = lambda record: messages.put(record.getMessage())
    logging.getLogger("xaihelpers").handlers = [handler]
    disk = AnswersOnDisk()
    ready.release()
    go.wait(60)
    for number in range(100):
        disk.keep(f"{name} {number}", ask.Answer(str(number)))
    disk.close()


class TestTwoProcesses:
    @pytest.fixture
    def write(self):
        """Lets two processes, which hold the cache open, write at the same time; returns what they logged."""
        context = multiprocessing.get_context("fork")
        ready, go, messages = context.Semaphore(0), context.Event(), context.SimpleQueue()
        processes = [
            context.Process(target=hold_and_write, args=(name, ready, go, messages)) for name in "ab"
        ]
        for process in processes:
            process.start()
        assert ready.acquire(timeout=60) and ready.acquire(timeout=60)

        def both():
            go.set()
            for process in processes:
                process.join(120)
                assert process.exitcode == 0
            return [messages.get() for _ in iter(messages.empty, True)]

        yield both
        for process in processes:
            process.kill()
            process.join()

    def check(self):
        disk = AnswersOnDisk()
        for name in "ab":
            for number in range(100):
                assert disk.get(f"{name} {number}") == ask.Answer(str(number))
        disk.close()

    def test_both_write_into_one_file(self, write):
        assert write() == []
        self.check()

    def test_damage_under_both_is_repaired_once_and_nothing_new_is_lost(self, write, answers_folder):
        for file in answers_folder.glob("cache.db*"):
            file.write_bytes(b"garbage" * 3000)
        (message,) = write()
        assert "set aside as answers.damaged" in message
        self.check()

    def test_a_folder_that_is_deleted_under_both_is_begun_anew(self, write, answers_folder):
        shutil.rmtree(answers_folder)
        assert write() == []
        self.check()
