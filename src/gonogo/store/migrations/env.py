"""Alembic's entry: runs the migrations on the connection that `_migrate` hands over.

Two processes that start at once migrate one after the other: the second finds nothing to do.
"""

from alembic import context

from gonogo.store.schema import METADATA

_LOCK = 0x676F6E6F676F
connection = context.config.attributes["connection"]
SQLITE = connection.dialect.name == "sqlite"
if SQLITE:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
context.configure(connection=connection, target_metadata=METADATA, transactional_ddl=not SQLITE)
with context.begin_transaction():
    if not SQLITE:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    context.run_migrations()
if SQLITE:
    connection.exec_driver_sql("COMMIT")
