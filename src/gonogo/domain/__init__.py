"""The words and the rules: plans, transitions, messages, events, errors.

Pure: no clock, no input or output, no event loop. Everything here is a value, a table or a
function of its arguments, so that every other room can trust it and tests can try all of it.
"""
