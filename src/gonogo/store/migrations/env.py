"""Alembic's entry: runs the migrations in the transaction that `migrate` hands over."""

from alembic import context

from gonogo.store.schema import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
context.run_migrations()
