"""The window: Qt widgets that show view models and report what the person wants."""
