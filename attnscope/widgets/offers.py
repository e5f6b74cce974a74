"""Everything the command palette can do: actions, models, samples, heads and choices, with what runs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from PySide6.QtGui import QAction, QKeySequence

from attnscope.figures.plain import plain_text, short_path, shorten
from attnscope.kept_models import kept_model
from attnscope.records.sites import HeadRef
from attnscope.viewmodels.maps.aspect import BLENDS, BLOCKS, HIDDEN, OVERS, ROW_WORDS
from attnscope.viewmodels.palette import Item
from attnscope.viewmodels.session.gating import every_head
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import COLOUR_MAP_NAMES, LINES, SCALES, THEME_NAMES, Page, ViewState
from attnscope.widgets.actions import ACTIONS, has_two_texts, writes

_MAX_HEADS = 6000


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One item and what choosing it does."""

    item: Item
    run: Callable[[], None]


def action_offers(actions: Mapping[str, QAction]) -> Iterable[Offer]:
    """One offer for each action that can be seen; what cannot be done now is greyed."""
    specs = {spec.name: spec for spec in ACTIONS}
    for name, action in actions.items():
        if name == "palette" or not action.isVisible():
            continue
        text = action.text().replace("&&", "&").rstrip("…")
        tip = action.toolTip().split(" (")[0]
        yield Offer(
            item=Item(
                key=f"action:{name}",
                kind="page" if name.startswith("page-") else "action",
                title=text,
                detail=tip if tip != text else specs[name].menu if name in specs else "",
                keys=shortcut_text(action),
                search=specs[name].search if name in specs else "",
                is_enabled=action.isEnabled(),
            ),
            run=action.trigger,
        )


def shortcut_text(action: QAction) -> str:
    """The first shortcut as this system writes it."""
    return action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)


_SHOW_MODEL: tuple[Page, ...] = ("explore", "compare", "heads", "positions")
"""Pages on which one sees that another model is open; from the others its offer turns to Explore."""
_SHOW_MAPS: tuple[Page, ...] = ("explore", "compare")


def _seen(view: ViewState, pages: tuple[Page, ...], run: Callable[[], None]) -> Callable[[], None]:
    """What does `run` where one sees what comes of it."""

    def turn_and_run() -> None:
        if view.page not in pages:
            view.show_page("explore")
        run()

    return turn_and_run


def model_offers(session: Session, view: ViewState, recent: Iterable[str]) -> Iterable[Offer]:
    """Demo models, then models opened before."""

    def load(source: str) -> Callable[[], None]:
        return _seen(view, _SHOW_MODEL, lambda: session.opening.load(source))

    for name in session.demo_models:
        kept = kept_model(name)
        yield Offer(
            item=Item(
                key=f"model:{name}",
                kind="model",
                title=plain_text(name),
                detail=f"demo model; {kept.lacks}" if kept.lacks else "demo model",
                search=kept.search,
            ),
            run=load(name),
        )
    for source in recent:
        if source not in session.demo_models:
            short = short_path(plain_text(source), 60)
            yield Offer(
                item=Item(key=f"recent:{source}", kind="recent", title=short, detail="opened before"),
                run=load(source),
            )


def session_offers(recent: Iterable[str], open_path: Callable[[str], None]) -> Iterable[Offer]:
    """Sessions opened before."""
    for path in recent:
        short = shorten(plain_text(path), 60)
        yield Offer(
            item=Item(key=f"session:{path}", kind="recent", title=short, detail="session"),
            run=lambda path=path: open_path(path),  # type: ignore[misc]
        )


def sample_offers(session: Session, show_explore: Callable[[], None]) -> Iterable[Offer]:
    """The samples of the open model."""
    for sample in session.model.samples if session.model else ():

        def run(chosen: object = sample) -> None:
            show_explore()
            session.texts.choose_sample(chosen)  # type: ignore[arg-type]

        title = shorten(plain_text(sample.text), 64)
        hint = shorten(plain_text(sample.hint), 60)
        yield Offer(item=Item(key=f"sample:{sample.text}", kind="sample", title=title, detail=hint), run=run)


def head_offers(session: Session, show_explore: Callable[[], None]) -> Iterable[Offer]:
    """Every head of the open model, with what it does on this text."""
    heads = every_head(session.model.sites) if session.model else ()
    for head in heads[:_MAX_HEADS]:

        def run(chosen: HeadRef = head) -> None:
            show_explore()
            session.select_heads((chosen,))

        words = session.line_about(head)
        title = f"{head.label} {head.stack}"
        yield Offer(item=Item(key=f"head:{title}", kind="head", title=title, detail=words), run=run)


def choice_offers(session: Session, view: ViewState) -> Iterable[Offer]:
    """Every choice that a menu holds, by name."""
    yield from _aspect_offers(session, view)
    for key, text in LINES.items():
        run = _seen(view, _SHOW_MAPS, lambda k=key: view.choose_lines(k))  # type: ignore[misc]
        yield _choice("Lines", text, view.lines == key, run)
    for name, text in COLOUR_MAP_NAMES.items():
        is_so = view.colour_map == name
        yield _choice("Colour map", text, is_so, lambda n=name: view.set_colour_map(n))  # type: ignore[misc]
    for scale, text in SCALES.items():
        yield _choice("Scale", text, view.scale == scale, lambda s=scale: view.set_scale(s))  # type: ignore[misc]
    for theme, text in THEME_NAMES.items():
        yield _choice("Theme", text, view.theme == theme, lambda t=theme: view.set_theme(t))  # type: ignore[misc]


def _aspect_offers(session: Session, view: ViewState) -> Iterable[Offer]:
    aspect = session.aspect
    for title, field, texts in (
        ("Show", "blend", BLENDS),
        ("Blend", "over", OVERS),
        ("Keys", "hidden", HIDDEN),
        *((("Two texts", "block", BLOCKS),) if has_two_texts(session) else ()),
        *((("Rows", "rows", ROW_WORDS),) if writes(session) else ()),
    ):
        for value, text in texts.items():
            wanted = replace(aspect, **{field: value})
            if field == "over" and aspect.blend == "none":
                wanted = replace(wanted, blend="mean")
            run = _seen(view, _SHOW_MAPS, lambda w=wanted: session.set_aspect(w))  # type: ignore[misc]
            yield _choice(title, text, wanted == aspect, run)


def _choice(title: str, text: str, is_so: bool, run: Callable[[], None]) -> Offer:
    name = f"{title}: {text}"
    return Offer(item=Item(key=name, kind="choice", title=name, detail="chosen" if is_so else ""), run=run)
