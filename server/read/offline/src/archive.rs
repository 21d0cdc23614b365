//! Source of the decision log for commands: a running server, or its database while no server runs.

use std::future::Future;
use std::time::Duration;

use clap::Args;

use client::archive::{ServerArchive, failed};
use client::remote::ServerFlags;
use command::exit::Failure;
use store::Archive;
use store_postgres::postgres::{LONGEST_OPERATION, PostgresStore, Settings};

// A client waits longer than an operation of the server's store takes, so that the error of the store arrives.
const _: () = assert!(client::remote::TIMEOUT.as_secs() >= LONGEST_OPERATION.as_secs() + 5);

/// Source: the given server, else the given database, else the default server.
#[derive(Debug, Args)]
pub(crate) struct ArchiveFlags {
    #[command(flatten)]
    server: ServerFlags,
    /// PostgreSQL database of the servers (their `store.database-url`), used when no server is
    /// given; read only
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    database_url: Option<String>,
}

impl ArchiveFlags {
    /// Connects and runs `ask`.
    ///
    /// # Errors
    /// The server or database is unreachable or of another version, or `ask` failed.
    pub fn ask<T, F>(&self, ask: impl FnOnce(Box<dyn Archive>) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        match self.database_url.as_deref().filter(|url| !self.server.is_named() && !url.is_empty()) {
            Some(url) => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
                runtime.block_on(async {
                    let settings = Settings {
                        migrate: false,
                        connections: 2,
                        name: "fleetwright history".to_owned(),
                        wait: Duration::ZERO,
                    };
                    let store = PostgresStore::connect_with(url, &settings).await.map_err(failed)?;
                    ask(Box::new(store)).await
                })
            }
            None => self.server.ask(|client| ask(Box::new(ServerArchive(client)))),
        }
    }
}
