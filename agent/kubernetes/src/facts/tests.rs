//! Facts from an API server with a few objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tower::service_fn;

use super::*;

const INFO: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
const DNS: &str = "/api/v1/namespaces/kube-system/services/kube-dns";
const CIDR: &str = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes";

/// The answers of an API server, by path; a path without an answer is 404.
#[derive(Clone, Default)]
struct Answers(Arc<Mutex<BTreeMap<String, (u16, Value)>>>);

impl Answers {
    fn set(&self, path: &str, code: u16, object: Value) {
        self.0.lock().unwrap().insert(path.to_owned(), (code, object));
    }

    /// A cluster that has all three objects.
    fn complete() -> Self {
        let answers = Self::default();
        let kubeconfig =
            "apiVersion: v1\nkind: Config\nclusters:\n- name: ''\n  cluster: {server: 'https://info.example:6443'}\n";
        answers.set(INFO, 200, json!({ "data": { "kubeconfig": kubeconfig } }));
        let addresses = json!(["10.100.0.10", "fd00::a"]);
        answers.set(DNS, 200, json!({ "spec": { "clusterIP": "10.100.0.10", "clusterIPs": addresses } }));
        answers.set(CIDR, 200, json!({ "spec": { "cidrs": ["10.100.0.0/16", "fd00::/108"] } }));
        answers
    }

    fn reader(&self, settings: FactsConfig) -> FactsReader {
        let answers = self.clone();
        let server = service_fn(move |request: Request<Body>| {
            let found = answers.0.lock().unwrap().get(request.uri().path()).cloned();
            async move {
                let (code, object) = found.unwrap_or((404, json!({})));
                Response::builder()
                    .status(code)
                    .body(Body::from(object.to_string().into_bytes()))
                    .map_err(std::io::Error::other)
            }
        });
        let access = ApiAccess::by("https://client.example", "CA");
        FactsReader::new(Api::new(Client::new(server, "default")), access, settings)
    }
}

fn facts(endpoint: &str, authority: &str, cidr: &str, dns: &[&str]) -> v1::ClusterFacts {
    v1::ClusterFacts {
        api_endpoint: endpoint.to_owned(),
        certificate_authority: authority.as_bytes().to_vec(),
        service_cidr: cidr.to_owned(),
        dns_addresses: dns.iter().map(|address| (*address).to_owned()).collect(),
    }
}

#[tokio::test]
async fn the_objects_of_the_cluster_are_read() {
    let read = Answers::complete().reader(FactsConfig::default()).read().await;
    assert_eq!(read, facts("https://info.example:6443", "CA", "10.100.0.0/16", &["10.100.0.10", "fd00::a"]));
}

#[tokio::test]
async fn without_the_objects_the_clients_url_remains() {
    let read = Answers::default().reader(FactsConfig::default()).read().await;
    assert_eq!(read, facts("https://client.example", "CA", "", &[]));
}

#[tokio::test]
async fn settings_come_before_the_objects() {
    let path = std::env::temp_dir().join(format!("fleetwright-agent-{}-facts.pem", std::process::id()));
    std::fs::write(&path, "OWN").unwrap();
    let settings = FactsConfig {
        api_endpoint: Some("https://set.example/".to_owned()),
        api_ca_file: Some(path.clone()),
        service_cidr: Some("172.20.0.0/16".to_owned()),
    };
    let reader = Answers::complete().reader(settings);
    let expected = facts("https://set.example", "OWN", "172.20.0.0/16", &["10.100.0.10", "fd00::a"]);
    assert_eq!(reader.read().await, expected);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(reader.read().await, expected, "the last certificates remain");
}

#[tokio::test]
async fn what_the_role_forbids_is_empty_and_what_fails_keeps_its_last_value() {
    let answers = Answers::complete();
    let reader = answers.reader(FactsConfig::default());
    reader.read().await;
    for path in [INFO, DNS, CIDR] {
        answers.set(path, 503, json!({}));
    }
    let expected = facts("https://info.example:6443", "CA", "10.100.0.0/16", &["10.100.0.10", "fd00::a"]);
    assert_eq!(reader.read().await, expected);
    for path in [INFO, DNS, CIDR] {
        answers.set(path, 403, json!({}));
    }
    assert_eq!(reader.read().await, facts("https://client.example", "CA", "", &[]));
}

#[tokio::test]
async fn what_changes_is_read_again() {
    let answers = Answers::complete();
    let reader = answers.reader(FactsConfig::default());
    reader.read().await;
    answers.set(DNS, 200, json!({ "spec": { "clusterIP": "10.100.0.99" } }));
    assert_eq!(reader.read().await.dns_addresses, ["10.100.0.99"]);
    answers.set(DNS, 200, json!({ "spec": { "clusterIP": "None", "clusterIPs": ["None"] } }));
    assert_eq!(reader.read().await.dns_addresses, [""; 0], "a headless Service has no address");
}

/// The log, as it is written.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_right_that_is_missing_is_logged_once_until_it_is_granted() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    // With one subscriber alone, tracing asks that of the thread that logs an event first, and other tests have none.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let _logging = tracing::subscriber::set_default(subscriber);
    // Other tests log the same event without a subscriber: what is cached of that is not for this one.
    tracing::callsite::rebuild_interest_cache();
    let lines =
        || String::from_utf8(log.0.lock().unwrap().clone()).unwrap().lines().map(str::to_owned).collect::<Vec<_>>();
    let answers = Answers::complete();
    let reader = answers.reader(FactsConfig::default());
    for (code, expected) in [(403, 1), (403, 1), (404, 1), (403, 2)] {
        answers.set(DNS, code, json!({}));
        reader.read().await;
        assert_eq!(lines().len(), expected, "{:?}", lines());
    }
    let first = &lines()[0];
    for part in ["WARN", "cannot read a fact for new nodes", "addresses of DNS", DNS, "deploy/agent/rbac.yaml"] {
        assert!(first.contains(part), "{part}: {first}");
    }
}

#[test]
fn a_cluster_info_without_a_reachable_url_has_no_endpoint() {
    let info = |kubeconfig: &str| cluster_info_endpoint(&json!({ "data": { "kubeconfig": kubeconfig } }));
    assert_eq!(info("clusters: [{name: '', cluster: {server: 'https://127.0.0.1:6443'}}]"), "");
    assert_eq!(info("clusters: []"), "");
    assert_eq!(info(": no YAML ["), "");
    assert_eq!(cluster_info_endpoint(&json!({})), "");
}
