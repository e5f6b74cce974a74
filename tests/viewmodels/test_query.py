"""One question for what is looked at: asked once, the newest answer counts."""

from attnscope.records import Failed, ModelSaved, OpenRun, Progress, Request
from attnscope.viewmodels import Query, Requests


def made() -> tuple[Query[ModelSaved], list[Request]]:
    asked: list[Request] = []
    query = Query(ModelSaved, Requests(asked.append))
    query.is_watched = True
    return query, asked


REQUEST = OpenRun(number=0, folder="a")


def test_that_a_thing_is_asked_about_once_and_only_while_somebody_looks() -> None:
    query, asked = made()
    query.is_watched = False
    assert not query.ask("a", REQUEST)
    query.is_watched = True
    assert [query.ask(about, REQUEST) for about in ("a", "a", "b")] == [True, False, True]
    assert [one.number for one in asked] == [1, 2]
    assert query.is_busy


def test_that_the_newest_answer_alone_is_taken() -> None:
    query, _ = made()
    query.ask("a", REQUEST)
    query.ask("b", REQUEST)
    assert not query.take(ModelSaved(number=1, folder="late"))
    assert not query.take(Failed(number=0, request="", message="of nobody"))
    assert not query.take(Progress(number=2, what="x"))
    assert (query.answer, query.is_busy) == (None, True)
    answer = ModelSaved(number=2, folder="b")
    assert query.take(answer)
    assert (query.answer, query.error, query.is_busy) == (answer, "", False)


def test_that_a_failure_takes_the_place_of_the_answer_and_a_later_answer_of_the_failure() -> None:
    query, _ = made()
    query.ask("a", REQUEST)
    query.take(ModelSaved(number=1, folder="a"))
    query.ask("b", REQUEST)
    assert query.take(Failed(number=2, request="", message="no"))
    assert (query.answer, query.error) == (None, "no")
    query.ask("c", REQUEST)
    assert query.take(ModelSaved(number=3, folder="c"))
    assert query.error == ""


def test_that_giving_up_keeps_what_is_known_and_forgetting_asks_again() -> None:
    query, asked = made()
    query.ask("a", REQUEST)
    query.take(ModelSaved(number=1, folder="a"))
    query.give_up()
    assert not query.take(ModelSaved(number=1, folder="again"))
    assert query.answer is not None
    assert not query.ask("a", REQUEST)
    query.forget()
    assert (query.answer, query.ask("a", REQUEST), len(asked)) == (None, True, 2)


def test_that_renewing_keeps_what_is_known_and_asks_about_the_same_again() -> None:
    query, asked = made()
    query.ask("a", REQUEST)
    answer = ModelSaved(number=1, folder="a")
    assert query.owns(answer)
    query.take(answer)
    query.renew()
    assert not query.owns(answer)
    assert (query.answer, query.is_busy) == (answer, False)
    assert query.ask("a", REQUEST)
    assert (len(asked), query.answer) == (2, answer)


def test_that_each_request_bears_a_number_of_its_own() -> None:
    sent: list[Request] = []
    requests = Requests(sent.append, first=3, step=5)
    assert (requests.send(OpenRun(folder="a")), requests.next(), requests.send(OpenRun(folder="b"))) == (
        3,
        8,
        13,
    )
    assert sent == [OpenRun(number=3, folder="a"), OpenRun(number=13, folder="b")]
