"""An index in PostgreSQL with pgvector, for those who outgrow a folder."""
