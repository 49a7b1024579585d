"""Runs the migrations on the connection that `Database.migrate` hands over, within its transaction."""

from alembic import context

from service.store.models import Base

context.configure(
    connection=context.config.attributes["connection"], target_metadata=Base.metadata, transactional_ddl=True
)
with context.begin_transaction():
    context.run_migrations()
