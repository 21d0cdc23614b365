//! Logs: on standard error, set up once.

use tracing_subscriber::EnvFilter;

/// Starts logging. A second call in one process changes nothing.
///
/// # Errors
/// The filter in words, when it cannot be read.
pub(crate) fn start(filter: &str, json: bool) -> Result<(), String> {
    let filter =
        EnvFilter::try_new(filter).map_err(|error| format!("log.filter = {filter:?} cannot be read: {error}"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // The only failure is that somebody has set logging up already, which is then in force.
    let _already_started = if json { builder.json().try_init() } else { builder.with_ansi(false).try_init() };
    Ok(())
}
