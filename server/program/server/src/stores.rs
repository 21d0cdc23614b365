//! Selects the store of a server.
//!
//! The configured database, else a local PostgreSQL, else memory: the latter only with
//! `store.memory = true`, or where PostgreSQL is not installed and the cloud is simulated. A server
//! that launches real instances requires a durable store: after a crash its launches would be
//! unknown.

pub mod health;
pub mod retention;

use std::sync::Arc;

use anyhow::{Context, anyhow};
use tracing::{info, warn};

use server_settings::Config;
use store::Store;
use store::memory::MemoryStore;
use store_postgres::postgres::{PostgresStore, Settings};
use store_postgres::postgres_local::{self, LocalPostgres};

/// Opens the store of `config`; returns the local PostgreSQL process if one was started.
///
/// # Errors
/// The failed step and its remedy.
pub(crate) async fn open_store(config: &Config) -> anyhow::Result<(Arc<dyn Store>, Option<LocalPostgres>)> {
    if let Some(url) = &config.store.database_url {
        return Ok((connect_postgres(config, url).await?, None));
    }
    if config.store.memory {
        warn!("store.memory: leases, intents and decisions are lost with this process");
        return Ok((Arc::new(MemoryStore::new()), None));
    }
    let folder = &config.store.data_dir;
    let Some(binaries) = postgres_local::find_for(folder) else { return open_without_postgres(config) };
    let server = LocalPostgres::start(&binaries, folder).with_context(|| {
        format!(
            "no database is configured, and a local PostgreSQL could not be started in {}; configure a database (DATABASE_URL), \
             another folder (store.data-dir), or set store.memory = true",
            folder.display()
        )
    })?;
    let how = if server.adopted() { "adopted" } else { "started" };
    info!(version = binaries.major, folder = %folder.display(), "{how} local PostgreSQL");
    let store = connect_postgres(config, &server.url()).await?;
    Ok((store, Some(server)))
}

async fn connect_postgres(config: &Config, url: &str) -> anyhow::Result<Arc<dyn Store>> {
    let settings = Settings {
        migrate: config.store.migrate,
        connections: config.store.connections,
        name: format!("fleetwright {}", config.lease.owner),
        ..Settings::default()
    };
    Ok(Arc::new(PostgresStore::connect_with(url, &settings).await?))
}

fn open_without_postgres(config: &Config) -> anyhow::Result<(Arc<dyn Store>, Option<LocalPostgres>)> {
    const MISSING: &str = "no database is configured (DATABASE_URL), and no PostgreSQL is installed to run locally";
    if config.cloud.is_simulated() {
        warn!("{MISSING}: leases, intents and decisions are lost with this process");
        return Ok((Arc::new(MemoryStore::new()), None));
    }
    Err(anyhow!(
        "{MISSING}: install one (on Debian: apt-get install postgresql), configure a database, or set store.memory = true and \
         lose all state at the next start"
    ))
}
