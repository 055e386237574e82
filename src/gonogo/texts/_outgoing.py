"""What people read outside gonogo's own clients: in a chat, and on the page of a link."""

ENGLISH_OUTGOING = {
    "asked_tool": "{agent} asks to use {tool}",
    "asked_plan": "A plan waits for your decision: {subject}",
}

RUSSIAN_OUTGOING = {
    "asked_tool": "{agent} просит разрешения на {tool}",
    "asked_plan": "План ждёт вашего решения: {subject}",
}
