"""The first tables: names, engines, builds, logs, blobs, workers."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

Identifier = sa.String(36)
Sha256 = sa.String(64)
Json = sa.JSON(none_as_null=True)
Time = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "blobs",
        sa.Column("sha256", Sha256, nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("content", Identifier, nullable=False),
        sa.PrimaryKeyConstraint("sha256"),
        sa.UniqueConstraint("content"),
    )
    op.create_table(
        "chunks",
        sa.Column("content", Identifier, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("content", "number"),
    )
    op.create_table(
        "names",
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("last_version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "staged",
        sa.Column("id", Identifier, nullable=False),
        sa.Column("content", Identifier, nullable=False),
        sa.Column("touched_at", Time, nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_staged_content"), "staged", ["content"], unique=False)
    op.create_table(
        "workers",
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("seen_at", Time, nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "engines",
        sa.Column("id", Identifier, nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("backend", sa.String(length=32), nullable=False),
        sa.Column("backend_version", sa.Text(), nullable=True),
        sa.Column("targets", Json, nullable=False),
        sa.Column("profiles", Json, nullable=False),
        sa.Column("inputs", Json, nullable=False),
        sa.Column("outputs", Json, nullable=False),
        sa.Column("plugins", Json, nullable=False),
        sa.Column("serving", Json, nullable=False),
        sa.Column("verify", sa.Boolean(), nullable=False),
        sa.Column("no_cache", sa.Boolean(), nullable=False),
        sa.Column("cached", sa.Boolean(), nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("error", Json, nullable=True),
        sa.Column("model_sha256", Sha256, nullable=False),
        sa.Column("plan_sha256", Sha256, nullable=True),
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time, nullable=False),
        sa.ForeignKeyConstraint(
            ["model_sha256"],
            ["blobs.sha256"],
        ),
        sa.ForeignKeyConstraint(
            ["name"],
            ["names.name"],
        ),
        sa.ForeignKeyConstraint(
            ["plan_sha256"],
            ["blobs.sha256"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name", "version"),
    )
    op.create_index(op.f("ix_engines_model_sha256"), "engines", ["model_sha256"], unique=False)
    op.create_index(op.f("ix_engines_plan_sha256"), "engines", ["plan_sha256"], unique=False)
    op.create_index("ix_engines_queue", "engines", ["status", "priority", "id"], unique=False)
    op.create_table(
        "builds",
        sa.Column("engine_id", Identifier, nullable=False),
        sa.Column("token", Identifier, nullable=True),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("lease_until", Time, nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("fraction", sa.Double(), nullable=False),
        sa.Column("started_at", Time, nullable=True),
        sa.Column("ended_at", Time, nullable=True),
        sa.Column("advanced_at", Time, nullable=True),
        sa.ForeignKeyConstraint(["engine_id"], ["engines.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("engine_id"),
    )
    op.create_index(op.f("ix_builds_lease_until"), "builds", ["lease_until"], unique=False)
    op.create_table(
        "engine_files",
        sa.Column("engine_id", Identifier, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("sha256", Sha256, nullable=False),
        sa.ForeignKeyConstraint(["engine_id"], ["engines.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["sha256"],
            ["blobs.sha256"],
        ),
        sa.PrimaryKeyConstraint("engine_id", "number"),
    )
    op.create_index(op.f("ix_engine_files_sha256"), "engine_files", ["sha256"], unique=False)
    op.create_table(
        "logs",
        sa.Column("id", Identifier, nullable=False),
        sa.Column("engine_id", Identifier, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["engine_id"], ["engines.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_logs_engine_id", "logs", ["engine_id", "id"], unique=False)


def downgrade() -> None:
    op.drop_table("logs")
    op.drop_table("engine_files")
    op.drop_table("builds")
    op.drop_table("engines")
    op.drop_table("workers")
    op.drop_table("staged")
    op.drop_table("names")
    op.drop_table("chunks")
    op.drop_table("blobs")
