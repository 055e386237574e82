"""How long things took, in few words."""

from gonogo.texts._say import say


def duration(seconds: float, locale: str) -> str:
    """A time that something took."""
    if seconds < 60:
        return say("time_seconds", locale, seconds=f"{seconds:.1f}")
    minutes, left = divmod(round(seconds), 60)
    if minutes < 60:
        return say("time_minutes", locale, minutes=minutes, seconds=left)
    return say("time_hours", locale, hours=minutes // 60, minutes=minutes % 60)
