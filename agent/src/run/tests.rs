use fleetwright_rpc::v1::agent_service_server::{AgentService, AgentServiceServer};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;

use super::*;
use crate::port::{ClusterError, Identity, ListWatch};
use crate::temporary_file::TemporaryFile;

fn target(server: &str) -> Target {
    Target {
        server: server.into(),
        credentials: Credentials::default(),
        cluster_name: "blue".into(),
        region: String::new(),
        karpenter_absent: false,
        seed: 1,
    }
}

#[tokio::test]
async fn a_timeout_ends_what_never_completes() {
    let never = std::future::pending::<Result<(), DisconnectReason>>();
    let late = with_timeout(Duration::from_millis(1), "the stream was not open", never).await.unwrap_err();
    assert_eq!(late.to_string(), "the stream was not open after 1ms");
    assert!(matches!(
        with_timeout(OPEN_TIMEOUT, "", async { Err::<(), _>(DisconnectReason::Ended) }).await,
        Err(DisconnectReason::Ended)
    ));
}

#[test]
fn an_invalid_address_is_named_in_the_error() {
    let error = endpoint(&target("not an address")).unwrap_err().to_string();
    assert!(error.contains("\"not an address\"") && error.contains("http://host:port"), "{error}");
    assert!(endpoint(&target("http://127.0.0.1:1")).is_ok());
}

/// A cluster without objects.
struct EmptyCluster;

impl Cluster for EmptyCluster {
    fn identity(&self) -> Identity {
        Identity { uid: "uid".into(), kubernetes_version: "v1.37.0".into() }
    }

    async fn list_and_watch(&self) -> Result<ListWatch, ClusterError> {
        let (sender, changes) = mpsc::channel(1);
        // A channel without a sender would request another list.
        tokio::spawn(async move { sender.closed().await });
        Ok(ListWatch { records: Vec::new(), changes })
    }

    async fn execute_instruction(&self, _instruction: v1::Instruction) -> Done {
        Done::ok()
    }

    async fn highest_epoch(&self) -> Result<u64, ClusterError> {
        Ok(0)
    }

    async fn raise_epoch(&self, _epoch: u64) -> Result<(), ClusterError> {
        Ok(())
    }
}

/// A server of epoch 7 that ends every stream after `Welcome` with this status.
struct EndingServer(tonic::Status);

#[tonic::async_trait]
impl AgentService for EndingServer {
    type ConnectStream = ReceiverStream<Result<v1::ConnectResponse, tonic::Status>>;

    async fn connect(
        &self,
        _request: tonic::Request<Streaming<v1::ConnectRequest>>,
    ) -> Result<tonic::Response<Self::ConnectStream>, tonic::Status> {
        let (sender, responses) = mpsc::channel(2);
        let welcome = v1::Welcome { epoch: 7, heartbeat_interval_ms: 1_000, ..v1::Welcome::default() };
        let welcome = v1::ConnectResponse { message: Some(v1::connect_response::Message::Welcome(welcome)) };
        for message in [Ok(welcome), Err(self.0.clone())] {
            sender.send(message).await.unwrap();
        }
        Ok(tonic::Response::new(ReceiverStream::new(responses)))
    }
}

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// A certificate and its key (PEM) for this host name.
fn certify(host: &str) -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec![host.to_owned()]).unwrap().self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

/// The port of a gRPC server, encrypted with this certificate and key.
async fn grpc_server(certificate: Option<&(String, String)>) -> u16 {
    let (listener, port) = listen().await;
    let mut server = tonic::transport::Server::builder();
    if let Some((certificate, key)) = certificate {
        let identity = tonic::transport::Identity::from_pem(certificate, key);
        server = server.tls_config(tonic::transport::ServerTlsConfig::new().identity(identity)).unwrap();
    }
    let service = EndingServer(tonic::Status::aborted("replaced by a newer stream of this cluster"));
    let incoming = TcpListenerStream::new(listener);
    tokio::spawn(server.add_service(AgentServiceServer::new(service)).serve_with_incoming(incoming));
    port
}

/// The port of an HTTP server without gRPC, as the one of the dashboard.
async fn http_server() -> u16 {
    let (listener, port) = listen().await;
    tokio::spawn(async move { axum::serve(listener, axum::Router::new()).await });
    port
}

/// The reason and the remedy of one attempt to connect to this address.
async fn attempt(server: &str, ca: Option<&(String, String)>) -> (String, String) {
    let mut target = target(server);
    let file = ca.map(|(certificate, _)| TemporaryFile::new(certificate));
    target.credentials.ca_file = file.as_ref().map(|file| file.0.clone());
    let mut agent = Agent::new(Arc::new(EmptyCluster), &target, 0);
    let reason = agent.run_stream(&endpoint(&target).unwrap()).await;
    (reason.to_string(), reason.remedy(server).unwrap_or_default())
}

#[tokio::test]
async fn a_replaced_stream_ends_with_the_status_of_the_server_and_names_the_other_agent() {
    let port = grpc_server(None).await;
    let (reason, remedy) = attempt(&format!("http://127.0.0.1:{port}"), None).await;
    assert_eq!(reason, "Aborted: replaced by a newer stream of this cluster");
    assert!(remedy.starts_with("another agent connects as this cluster"), "{remedy}");
    let mut agent = Agent::new(Arc::new(EmptyCluster), &target("http://127.0.0.1:1"), 0);
    let replaced = DisconnectReason::Status(Box::new(tonic::Status::aborted("")));
    // 1 s, 2 s, 4 s and 8 s, each cut by half at most.
    let waits: Vec<u128> = (0..4).map(|_| agent.close_stream(&replaced).as_millis()).collect();
    assert!(waits[0] >= 500 && waits[3] >= 4_000, "{waits:?}");
    assert!(agent.close_stream(&DisconnectReason::Ended).as_millis() <= 250, "the ordinary backoff is separate");
}

#[tokio::test]
async fn an_agent_at_the_port_of_the_dashboard_is_sent_to_the_port_of_grpc() {
    let port = http_server().await;
    let server = format!("http://127.0.0.1:{port}");
    let (reason, remedy) = attempt(&server, None).await;
    assert!(reason.contains("404"), "{reason}");
    assert!(remedy.contains(&format!("{server} answers HTTP without gRPC")) && remedy.contains("7450"), "{remedy}");
    let status = tonic::Status::unimplemented("grpc-status header missing, mapped from HTTP status code 404");
    let remedy = DisconnectReason::Status(Box::new(status)).remedy("http://f:7480").unwrap();
    assert!(remedy.starts_with("set server.address = \"http://f:7450\""), "{remedy}");
}

#[tokio::test]
async fn an_unencrypted_agent_of_a_tls_server_is_shown_the_https_address() {
    let port = grpc_server(Some(&certify("localhost"))).await;
    let (reason, remedy) = attempt(&format!("http://127.0.0.1:{port}"), None).await;
    assert!(reason.starts_with("Unknown: connection lost: "), "{reason}");
    let address = format!("set server.address = \"https://127.0.0.1:{port}\" and server.ca-file");
    assert!(remedy.contains(&address), "{remedy}");
}

#[tokio::test]
async fn an_encrypted_agent_of_a_server_without_tls_is_shown_the_http_address() {
    for port in [grpc_server(None).await, http_server().await] {
        let (_, remedy) = attempt(&format!("https://localhost:{port}"), Some(&certify("localhost"))).await;
        assert!(remedy.contains(&format!("set server.address = \"http://localhost:{port}\"")), "{remedy}");
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_or_of_another_host_is_named() {
    let (trusted, elsewhere) = (certify("localhost"), certify("elsewhere.example"));
    let port = grpc_server(Some(&trusted)).await;
    let (_, remedy) = attempt(&format!("https://localhost:{port}"), Some(&elsewhere)).await;
    assert!(remedy.starts_with("set server.ca-file"), "{remedy}");
    let port = grpc_server(Some(&elsewhere)).await;
    let (reason, remedy) = attempt(&format!("https://localhost:{port}"), Some(&elsewhere)).await;
    assert!(reason.contains("elsewhere.example"), "{reason}");
    assert!(remedy.contains("a host name of the server's certificate"), "{remedy}");
}

#[tokio::test]
async fn an_address_where_no_server_listens_is_to_be_corrected() {
    let (listener, port) = listen().await;
    drop(listener);
    let (reason, remedy) = attempt(&format!("http://127.0.0.1:{port}"), None).await;
    assert!(reason.contains("Connection refused"), "{reason}");
    assert!(remedy.contains("start the server, or correct server.address"), "{remedy}");
}

#[tokio::test]
async fn the_server_receives_each_change_of_an_api_server_that_does_not_answer() {
    let (status, watched) = watch::channel(false);
    let (requests, mut sent) = mpsc::channel(OUTGOING_CAPACITY);
    let reports = tokio::spawn(report_api_server(watched, requests));
    let mut next = async || match sent.recv().await.and_then(|request| request.message) {
        Some(v1::connect_request::Message::ApiServerStatus(status)) => Some(status.unreachable),
        None => None,
        other => panic!("{other:?}"),
    };
    // Nothing is sent of one that answers.
    status.send_replace(true);
    assert_eq!(next().await, Some(true));
    status.send_replace(true);
    status.send_replace(false);
    assert_eq!(next().await, Some(false));
    drop(status);
    assert_eq!(next().await, None, "the task ends with the cluster");
    reports.await.unwrap();
}

#[tokio::test]
async fn a_new_stream_begins_with_the_status_of_an_api_server_that_does_not_answer() {
    let (_status, watched) = watch::channel(true);
    let (requests, mut sent) = mpsc::channel(OUTGOING_CAPACITY);
    tokio::spawn(report_api_server(watched, requests));
    let message = v1::connect_request::Message::ApiServerStatus(v1::ApiServerStatus { unreachable: true });
    assert_eq!(sent.recv().await, Some(v1::ConnectRequest { message: Some(message) }));
}

/// Lines of the log as they are written.
#[derive(Clone)]
struct LogLines(mpsc::UnboundedSender<String>);

impl std::io::Write for LogLines {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        drop(self.0.send(String::from_utf8_lossy(line).into_owned()));
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_connection_is_logged_with_its_epoch_and_its_loss_with_cause_and_duration() {
    let (sender, mut lines) = mpsc::unbounded_channel();
    // While there is one subscriber, tracing asks that of the thread that is the first to log an event, and other tests log
    // these events without one: they would be dropped here too.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || LogLines(sender.clone())).finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    // Other tests log the same events at the same time, without a subscriber: what is cached of that is not for this one.
    tracing::callsite::rebuild_interest_cache();
    let server = format!("http://127.0.0.1:{}", grpc_server(None).await);
    let target = target(&server);
    let mut agent = Agent::new(Arc::new(EmptyCluster), &target, 0);
    let reason = agent.run_stream(&endpoint(&target).unwrap()).await;
    agent.close_stream(&reason);
    let (first, second) = (lines.try_recv().unwrap(), lines.try_recv().unwrap());
    assert!(first.contains("INFO") && first.contains("connected to the server"), "{first}");
    assert!(first.contains("epoch=7") && first.contains(&server), "{first}");
    assert!(second.contains("WARN") && second.contains("disconnected from the server"), "{second}");
    for field in ["connected_s=0", "retry_in_ms=", "remedy=", "reason=Aborted: replaced by"] {
        assert!(second.contains(field), "{field}: {second}");
    }
}
