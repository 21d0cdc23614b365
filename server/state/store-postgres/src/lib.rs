//! The store in PostgreSQL.
//!
//! [`PostgresStore`](postgres::PostgresStore) implements [`store::Store`]; [`postgres_local`]
//! starts a PostgreSQL process where no database is configured. `conformance` runs one list of
//! behaviours against this store and the one in memory.

pub mod postgres;
pub mod postgres_local;

#[cfg(test)]
mod conformance;
