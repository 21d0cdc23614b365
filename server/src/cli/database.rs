//! Commands that read the store by themselves: they work while no server does.

use std::future::Future;

use clap::Args;

use super::exit::Failure;
use crate::store::StoreError;
use crate::store::postgres::{PostgresStore, Settings};

/// Which database.
#[derive(Debug, Args)]
pub(crate) struct DatabaseFlags {
    /// PostgreSQL that the servers share, as their `store.database-url`; nothing is written to it
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    database_url: String,
}

impl DatabaseFlags {
    /// Connects, and says what came of `ask`.
    ///
    /// # Errors
    /// When the database cannot be reached or is of another release, or what `ask` answers.
    pub(crate) fn ask<T, F>(&self, ask: impl FnOnce(PostgresStore) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
        runtime.block_on(async {
            let settings = Settings { migrate: false, connections: 2, name: "fleetwright history".to_owned() };
            let store = PostgresStore::connect_with(&self.database_url, &settings).await.map_err(failed)?;
            ask(store).await
        })
    }
}

/// A store that failed, as a command ends with it.
pub(crate) fn failed(error: StoreError) -> Failure {
    Failure::internal(error)
}
