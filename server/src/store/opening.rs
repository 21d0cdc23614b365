//! Which store a server runs on.
//!
//! A database that was given, else a PostgreSQL of our own, else memory: the last where the configuration says so, or where
//! PostgreSQL is not installed and machines cost nothing. A server that buys real machines does not run on memory unless it
//! is told to: after a crash nobody would know what it had bought.

use std::sync::Arc;

use anyhow::{Context, anyhow};
use tracing::{info, warn};

use super::Store;
use super::memory::MemoryStore;
use super::own::{self, OwnServer};
use super::postgres::{PostgresStore, Settings};
use crate::config::{Config, Provider};

/// The store by `config`, and the PostgreSQL below it when it is our own.
///
/// # Errors
/// What could not be opened, and what to do about it.
pub(crate) async fn open(config: &Config) -> anyhow::Result<(Arc<dyn Store>, Option<OwnServer>)> {
    if let Some(url) = &config.store.database_url {
        return Ok((connect(config, url).await?, None));
    }
    if config.store.memory {
        warn!("store.memory: leases, intents and decisions are lost with this process");
        return Ok((Arc::new(MemoryStore::new()), None));
    }
    let folder = &config.store.data_dir;
    let Some(binaries) = own::find_for(folder) else { return without_postgres(config) };
    let server = OwnServer::start(&binaries, folder).with_context(|| {
        format!(
            "no database is given, and this server's own PostgreSQL could not be started in {}; give a database (DATABASE_URL), \
             another folder (store.data-dir), or say store.memory = true",
            folder.display()
        )
    })?;
    let how = if server.adopted() { "adopted" } else { "started" };
    info!("{how} PostgreSQL {} of this server's own in {}", binaries.major, folder.display());
    let store = connect(config, &server.url()).await?;
    Ok((store, Some(server)))
}

async fn connect(config: &Config, url: &str) -> anyhow::Result<Arc<dyn Store>> {
    let settings = Settings {
        migrate: config.store.migrate,
        connections: config.store.connections,
        name: format!("fleetwright {}", config.lease.owner),
    };
    Ok(Arc::new(PostgresStore::connect_with(url, &settings).await?))
}

fn without_postgres(config: &Config) -> anyhow::Result<(Arc<dyn Store>, Option<OwnServer>)> {
    const MISSING: &str =
        "no database is given (DATABASE_URL), and no PostgreSQL is installed that this server could run itself";
    if config.cloud.provider == Provider::Simulated {
        warn!("{MISSING}: leases, intents and decisions are lost with this process");
        return Ok((Arc::new(MemoryStore::new()), None));
    }
    Err(anyhow!(
        "{MISSING}: install one (on Debian: apt-get install postgresql), give a database, or say store.memory = true and have \
         everything forgotten by the next start"
    ))
}
