//! Logging to standard error and, where a collector is configured, tracing to it.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use opentelemetry::global;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tonic::transport::ClientTlsConfig;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber, warn};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::escape::EscapingLineWriter;

/// Environment variable of the collector endpoint (OpenTelemetry).
pub const COLLECTOR_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Service name, and the beginning of the names of all crates whose spans are exported: spans of the
/// transport would produce further spans.
const NAME: &str = "fleetwright";

/// Timeout of the final flush.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Span exporter. Dropping it flushes pending spans, which must happen before the runtime ends.
#[derive(Debug)]
#[must_use]
pub struct Traces(Option<SdkTracerProvider>);

impl Drop for Traces {
    fn drop(&mut self) {
        let Some(provider) = &self.0 else { return };
        if let Err(error) = provider.shutdown_with_timeout(FLUSH_TIMEOUT) {
            warn!(%error, "could not flush traces to collector");
        }
    }
}

/// An invalid setting of logging or tracing.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the error of each variant says what it is")]
pub enum TelemetryError {
    #[error("the log filter is {0:?}; write {ACCEPTED_FILTERS}")]
    Filter(String),
    #[error("trace.collector is {collector:?}: {error}; write a URL such as http://127.0.0.1:4317")]
    Collector { collector: String, error: ExporterBuildError },
}

/// The accepted filters, for errors.
pub(crate) const ACCEPTED_FILTERS: &str =
    "a level (off, error, warn, info, debug, trace) or module=level, such as info,fleetwright=debug";

/// Whether `filter` is a valid one. A word without `=` must be a level: as a module, which the syntax
/// permits, a misspelled level would silence all other modules.
pub(crate) fn is_filter(filter: &str) -> bool {
    let is_name = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-'));
    let is_valid = |word: &str| !is_name(word) || (!word.is_empty() && word.parse::<LevelFilter>().is_ok());
    filter.split(',').all(|word| is_valid(word.trim())) && EnvFilter::try_new(filter).is_ok()
}

/// Starts logging. A second call in one process changes nothing.
///
/// # Errors
/// The filter, when it is invalid.
pub fn init_logging(filter: &str, json: bool) -> Result<(), TelemetryError> {
    install(log_layer(filter, json)?);
    Ok(())
}

/// Starts logging, and exports traces to `collector` if given. Requires a runtime.
///
/// # Errors
/// The filter or the collector, when it is invalid.
pub fn init_logging_and_tracing(filter: &str, json: bool, collector: Option<&str>) -> Result<Traces, TelemetryError> {
    let lines = log_layer(filter, json)?;
    let Some(collector) = collector else {
        install(lines);
        return Ok(Traces(None));
    };
    let provider = provider(collector)?;
    let spans = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer(NAME))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_filter(Targets::new().with_target(NAME, LevelFilter::INFO));
    global::set_tracer_provider(provider.clone());
    install(vec![lines, spans.boxed()]);
    Ok(Traces(Some(provider)))
}

fn log_layer(filter: &str, json: bool) -> Result<Box<dyn Layer<Registry> + Send + Sync>, TelemetryError> {
    if !is_filter(filter) {
        return Err(TelemetryError::Filter(filter.to_owned()));
    }
    let filter = EnvFilter::new(with_defaults(filter));
    let lines = tracing_subscriber::fmt::layer();
    Ok(if json {
        let lines = lines.with_writer(std::io::stderr).json().with_current_span(false).with_span_list(false);
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

/// A line of text: time, level, module and the fields of the event. Spans, which would repeat the
/// fields, are for the collector. A filter that disables them for the log is no way: it also
/// suppresses the next event of the thread.
struct EventLine;

impl<S, F> FormatEvent<S, F> for EventLine
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    F: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, F>, mut line: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        SystemTime.format_time(&mut line)?;
        let metadata = event.metadata();
        write!(line, " {:>5} {}: ", metadata.level(), metadata.target())?;
        ctx.format_fields(line.by_ref(), event)?;
        writeln!(line)
    }
}

fn install(layers: impl Layer<Registry> + Send + Sync) {
    // Fails only when logging is already initialized, and that configuration stays in force.
    let _already_started = tracing_subscriber::registry().with(layers).try_init();
}

fn provider(collector: &str) -> Result<SdkTracerProvider, TelemetryError> {
    let exporter = SpanExporter::builder().with_tonic().with_endpoint(collector);
    let encrypted = collector.starts_with("https://");
    let exporter =
        if encrypted { exporter.with_tls_config(ClientTlsConfig::new().with_enabled_roots()) } else { exporter };
    let unusable = |error| TelemetryError::Collector { collector: collector.to_owned(), error };
    let exporter = exporter.build().map_err(unusable)?;
    let named = std::env::var_os("OTEL_SERVICE_NAME").is_some();
    let resource = Resource::builder();
    let resource = if named { resource } else { resource.with_service_name(NAME) };
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_no_filter() {
        for filter in ["off", "info", "WARN", "info,fleetwright=debug", "fleetwright[span{a=1}]=trace", "sqlx=off"] {
            assert!(is_filter(filter), "{filter}");
        }
        for filter in ["verbose", "info,fleetwright", "fleetwright=verbose", "=", ""] {
            assert!(!is_filter(filter), "{filter}");
        }
    }

    #[test]
    fn an_invalid_filter_is_refused_with_the_accepted_levels() {
        let error = init_logging("verbose", false).unwrap_err().to_string();
        assert!(error.starts_with("the log filter is \"verbose\"; write a level (off, error, warn, "), "{error}");
    }
}
