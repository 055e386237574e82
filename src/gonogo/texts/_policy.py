"""What people read about rules and verdicts, in both languages."""

ENGLISH_POLICY = {
    "cli_matched": "it fits",
    "cli_not_considered": "not considered: decided before",
}

RUSSIAN_POLICY = {
    "cli_matched": "подходит",
    "cli_not_considered": "не рассматривалось: решено раньше",
}
