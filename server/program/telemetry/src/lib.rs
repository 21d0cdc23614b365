//! Logging to standard error and, where a collector is configured, tracing to it.

mod export;
mod log_lines;
mod sampler;

use std::borrow::Cow;

use opentelemetry_otlp::ExporterBuildError;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use command::escape::EscapingLineWriter;
pub use export::Traces;
pub use export::{Exporter, exporter};
use log_lines::{EventLine, JsonLine};

/// Environment variable of the collector endpoint (OpenTelemetry).
pub const COLLECTOR_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// An invalid setting of logging or tracing.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("the log filter is {0:?}; write {ACCEPTED_FILTERS}")]
    Filter(String),
    #[error("trace.collector is {collector:?}: {error}; write a URL such as http://127.0.0.1:4317")]
    Collector { collector: String, error: ExporterBuildError },
}

/// The accepted filters, for errors.
pub const ACCEPTED_FILTERS: &str =
    "a level (off, error, warn, info, debug, trace) or module=level, such as info,fleetwright=debug";

/// Starts logging. A second call in one process changes nothing.
///
/// # Errors
/// The filter, when it is invalid.
pub fn init_logging(filter: &str, json: bool) -> Result<(), TelemetryError> {
    install(log_layer(filter, json)?);
    Ok(())
}

/// Starts logging, and exports traces to `collector` if given; `instance` names this process there.
/// Requires a runtime.
///
/// # Errors
/// The filter or the collector, when it is invalid.
pub fn init_logging_and_tracing(
    filter: &str,
    json: bool,
    collector: Option<&str>,
    instance: &str,
) -> Result<Traces, TelemetryError> {
    let lines = log_layer(filter, json)?;
    let unusable = |collector: &str, error| TelemetryError::Collector { collector: collector.to_owned(), error };
    let traces = match collector {
        Some(collector) => export::start(collector, instance).map_err(|error| unusable(collector, error))?,
        None => Traces::off(),
    };
    match exporter() {
        Some(exporter) => install(vec![lines, exporter.layer().boxed()]),
        None => install(lines),
    }
    Ok(traces)
}

fn log_layer(filter: &str, json: bool) -> Result<Box<dyn Layer<Registry> + Send + Sync>, TelemetryError> {
    if !settings::is_log_filter(filter) {
        return Err(TelemetryError::Filter(filter.to_owned()));
    }
    let filter = EnvFilter::new(with_defaults(filter));
    let lines = tracing_subscriber::fmt::layer();
    Ok(if json {
        let lines = lines.with_writer(std::io::stderr).json().event_format(JsonLine::new());
        lines.with_filter(filter).boxed()
    } else {
        let lines =
            lines.with_writer(|| EscapingLineWriter(std::io::stderr())).with_ansi(false).event_format(EventLine);
        lines.with_filter(filter).boxed()
    })
}

/// The driver of the database warns of every connection that a lost database has cut; the health of
/// the store is logged once.
fn with_defaults(filter: &str) -> Cow<'_, str> {
    if filter.contains("sqlx") { filter.into() } else { format!("sqlx=error,{filter}").into() }
}

fn install(layers: impl Layer<Registry> + Send + Sync) {
    // Fails only when logging is already initialized, and that configuration stays in force.
    let _already_started = tracing_subscriber::registry().with(layers).try_init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_filter_is_refused_with_the_accepted_levels() {
        let error = init_logging("verbose", false).unwrap_err().to_string();
        assert!(error.starts_with("the log filter is \"verbose\"; write a level (off, error, warn, "), "{error}");
    }
}
