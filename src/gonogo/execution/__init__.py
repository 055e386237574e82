"""Carries out what people said and approved: turns, plans, questions, jobs, rollbacks.

From the lowest layer up: `scheduling` decides which subtasks start and knows no agents; `approvals`
asks people; `agent` lets a model work, each call through the gate; `plans` is the life of a plan.
Beside them, other modules run jobs, drive turns and put files back.

Promises: a message is kept before it is answered; a job of one kind and key runs at most once at a
time in a process; a job that comes while one of its kind and key runs, runs after it; a stop ends
what the job spawned; timers fire when they are due, with one sleeping task for all of them.
"""
