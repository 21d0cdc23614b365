//! Logs on standard error and, where there is a collector, traces to it. Set up once.

use std::time::Duration;

use opentelemetry::global;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tonic::transport::ClientTlsConfig;
use tracing::level_filters::LevelFilter;
use tracing::warn;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::visible::VisibleLines;

/// Names a collector, as OpenTelemetry defines it.
pub(crate) const COLLECTOR_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Our name to a collector, and the one module whose spans are sent: the transport's own would breed themselves.
const NAME: &str = "fleetwright";

/// How long spans that still wait may take to leave at the end.
const LAST_SPANS: Duration = Duration::from_secs(2);

/// Spans on their way to a collector. Those that still wait leave when it is dropped, which must happen while the runtime
/// that it was made in is still there.
#[derive(Debug)]
#[must_use]
pub(crate) struct Traces(Option<SdkTracerProvider>);

impl Drop for Traces {
    fn drop(&mut self) {
        let Some(provider) = &self.0 else { return };
        if let Err(error) = provider.shutdown_with_timeout(LAST_SPANS) {
            warn!(%error, "the last traces did not reach the collector");
        }
    }
}

/// Starts logging. A second call in one process changes nothing.
///
/// # Errors
/// The filter in words, when it cannot be read.
pub(crate) fn log(filter: &str, json: bool) -> Result<(), String> {
    start(lines(filter, json)?);
    Ok(())
}

/// Starts logging, and sends traces to a `collector` if there is one. A runtime must be there.
///
/// # Errors
/// The filter or the collector in words, when one cannot be used.
pub(crate) fn log_and_trace(filter: &str, json: bool, collector: Option<&str>) -> Result<Traces, String> {
    let lines = lines(filter, json)?;
    let Some(collector) = collector else {
        start(lines);
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
    start(vec![lines, spans.boxed()]);
    Ok(Traces(Some(provider)))
}

fn lines(filter: &str, json: bool) -> Result<Box<dyn Layer<Registry> + Send + Sync>, String> {
    let filter =
        EnvFilter::try_new(filter).map_err(|error| format!("log.filter = {filter:?} cannot be read: {error}"))?;
    let lines = tracing_subscriber::fmt::layer();
    Ok(if json {
        lines.with_writer(std::io::stderr).json().with_filter(filter).boxed()
    } else {
        lines.with_writer(|| VisibleLines(std::io::stderr())).with_ansi(false).with_filter(filter).boxed()
    })
}

fn start(layers: impl Layer<Registry> + Send + Sync) {
    // The only failure is that somebody has set logging up already, which is then in force.
    let _already_started = tracing_subscriber::registry().with(layers).try_init();
}

fn provider(collector: &str) -> Result<SdkTracerProvider, String> {
    let exporter = SpanExporter::builder().with_tonic().with_endpoint(collector);
    let encrypted = collector.starts_with("https://");
    let exporter =
        if encrypted { exporter.with_tls_config(ClientTlsConfig::new().with_enabled_roots()) } else { exporter };
    let exporter = exporter.build().map_err(|error| {
        format!("trace.collector = {collector:?} cannot be used: {error}; an address such as http://127.0.0.1:4317 is wanted")
    })?;
    let named = std::env::var_os("OTEL_SERVICE_NAME").is_some();
    let resource = Resource::builder();
    let resource = if named { resource } else { resource.with_service_name(NAME) };
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build())
}
