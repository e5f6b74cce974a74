"""A slider that goes where it is clicked, and follows the hand from there."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QSlider, QStyle, QStyleOptionSlider


class JumpSlider(QSlider):
    """Qt's slider moves a page towards a click; this one moves its handle under it."""

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self.orientation() == Qt.Orientation.Horizontal:
            option = QStyleOptionSlider()
            self.initStyleOption(option)
            groove, handle = (
                self.style().subControlRect(QStyle.ComplexControl.CC_Slider, option, part, self)
                for part in (QStyle.SubControl.SC_SliderGroove, QStyle.SubControl.SC_SliderHandle)
            )
            if not handle.contains(event.position().toPoint()):
                self.setSliderPosition(
                    QStyle.sliderValueFromPosition(
                        self.minimum(),
                        self.maximum(),
                        round(event.position().x()) - groove.x() - handle.width() // 2,
                        groove.width() - handle.width(),
                        option.upsideDown,
                    )
                )
        super().mousePressEvent(event)  # the handle is under the hand now: a drag goes on from here
