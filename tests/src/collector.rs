//! An OpenTelemetry collector that keeps the spans that it receives.

use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

/// A span with the service that it is of.
#[derive(Debug, Clone)]
pub struct ReceivedSpan {
    /// `service.name` of its resource.
    pub service: String,
    pub span: Span,
}

impl ReceivedSpan {
    /// The string attribute with this key.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        text(&self.span.attributes, key)
    }

    /// The values of an attribute of its events.
    #[must_use]
    pub fn texts_of_events(&self, key: &str) -> Vec<&str> {
        self.span.events.iter().filter_map(|event| text(&event.attributes, key)).collect()
    }
}

/// Receives spans on a port of this host.
#[derive(Debug, Clone, Default)]
pub struct Collector {
    spans: Arc<Mutex<Vec<ReceivedSpan>>>,
}

impl Collector {
    /// Starts a collector on the present runtime; returns it with its URL.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start() -> std::io::Result<(Self, String)> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("http://{}", listener.local_addr()?);
        let collector = Self::default();
        let service = TraceServiceServer::new(collector.clone());
        tokio::spawn(Server::builder().add_service(service).serve_with_incoming(TcpListenerStream::new(listener)));
        Ok((collector, address))
    }

    /// The spans that were received so far.
    #[must_use]
    pub fn spans(&self) -> Vec<ReceivedSpan> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut received = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        for of_resource in request.into_inner().resource_spans {
            let service = service_name(of_resource.resource.as_ref());
            let spans = of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            received.extend(spans.map(|span| ReceivedSpan { service: service.clone(), span }));
        }
        drop(received);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn service_name(resource: Option<&Resource>) -> String {
    resource.and_then(|resource| text(&resource.attributes, "service.name")).unwrap_or_default().to_owned()
}

fn text<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    let value = attributes.iter().find(|attribute| attribute.key == key)?.value.as_ref()?;
    match value.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}
