"""Alembic's entry: runs the migrations on the connection that `_migrate` hands over."""

from alembic import context

from gonogo.store._schema import METADATA

connection = context.config.attributes["connection"]
SQLITE = connection.dialect.name == "sqlite"
if SQLITE:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
context.configure(connection=connection, target_metadata=METADATA, transactional_ddl=not SQLITE)
with context.begin_transaction():
    context.run_migrations()
if SQLITE:
    connection.exec_driver_sql("COMMIT")
