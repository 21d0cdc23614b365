//! How a watch handles the responses of an API server. The responses are scripted; the requests are
//! the watch's own.

use std::sync::Mutex;

use agent::Record;
use http::{Request, Response};
use kube::Client;
use tower::service_fn;

use super::*;

const KIND: v1::ObjectKind = v1::ObjectKind::Namespace;

/// One response to a request whose path contains this: code, header and lines. The watch ends after
/// its lines.
struct Answer {
    to: &'static str,
    code: u16,
    retry_after: Option<&'static str>,
    lines: String,
}

/// The code of a response that never arrives.
const SILENT: u16 = 0;

fn answer(to: &'static str, code: u16, lines: &[&str]) -> Answer {
    let lines = lines.iter().map(|line| format!("{line}\n")).collect();
    Answer { to, code, retry_after: None, lines }
}

fn named(name: &str, version: u32) -> String {
    format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#)
}

fn event(kind: &str, name: &str, version: u32) -> String {
    format!(r#"{{"type":"{kind}","object":{}}}"#, named(name, version))
}

fn all_there(version: u32) -> String {
    format!(
        r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"{version}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}"#
    )
}

fn page(names: &[&str], version: u32, next: &str) -> String {
    let items: Vec<String> = names.iter().map(|name| named(name, version)).collect();
    format!(r#"{{"metadata":{{"resourceVersion":"{version}","continue":"{next}"}},"items":[{}]}}"#, items.join(","))
}

const FORGOTTEN: &str =
    r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#;
const NO_STREAMS: &str =
    r#"{"kind":"Status","code":422,"reason":"Invalid","message":"sendInitialEvents is forbidden"}"#;
const NO_SUCH_KIND: &str =
    r#"{"kind":"Status","code":404,"reason":"NotFound","message":"the server could not find it"}"#;

/// A watch of namespaces on an API server that responds by `script`, in order, and then not any
/// more.
struct WatchHarness {
    cache: Arc<ObjectCache>,
    requests: Arc<Mutex<Vec<(String, Instant)>>>,
    task: tokio::task::JoinHandle<()>,
    /// Kinds that the watch reported as not installed.
    absent_kinds: mpsc::UnboundedReceiver<String>,
    /// Whether the cache has been listed. Later responses follow only then, so that they arrive as
    /// changes.
    looked: tokio::sync::watch::Sender<bool>,
    begun: Instant,
}

impl WatchHarness {
    fn new(script: Vec<Answer>) -> Self {
        let script = Mutex::new(VecDeque::from(script));
        Self::serve(move |path| {
            // A watch that ends is restarted; this one never ends.
            let Some(answer) = script.lock().unwrap().pop_front() else { return answer("", SILENT, &[]) };
            assert!(path.contains(answer.to), "{path} is asked, not {}", answer.to);
            answer
        })
    }

    fn serve(answer_to: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        let looked = tokio::sync::watch::Sender::new(false);
        let look = looked.clone();
        let server = service_fn(move |request: Request<Body>| {
            let path = request.uri().to_string();
            log.lock().unwrap().push((path.clone(), Instant::now()));
            let answer = answer_to(&path);
            let mut look = look.subscribe();
            async move {
                // Responses to a resumed watch wait until the test has listed the cache, so that
                // they arrive as changes.
                if path.contains("&resourceVersion=") {
                    look.wait_for(|looked| *looked).await.map_err(std::io::Error::other)?;
                }
                match answer.code {
                    SILENT => std::future::pending().await,
                    _ => Ok::<_, std::io::Error>(response(answer)),
                }
            }
        });
        let cache = Arc::new(ObjectCache::new([KIND]));
        let spec = WATCHES.into_iter().find(|spec| matches!(spec.target, WatchTarget::Objects(KIND, _))).unwrap();
        let (sender, absent_kinds) = mpsc::unbounded_channel();
        let watcher = Watcher {
            api: Api::new(Client::new(server, "default")),
            cache: Arc::clone(&cache),
            spec,
            timeout_seconds: 290,
            supports_streaming_lists: true,
            absent_kinds: sender,
            shared: ShapeInterner::default(),
            resource_version: None,
            absent_since: None,
            progressed: false,
            unreadable: Vec::new(),
            unreadable_logged: BTreeSet::new(),
            backoff: Backoff::with_longest(MAX_RETRY_MS, 1),
        };
        Self { cache, requests, task: tokio::spawn(watcher.run()), absent_kinds, looked, begun: Instant::now() }
    }

    /// An API server that returns a namespace, and 404 from then on.
    fn denying() -> Self {
        Self::serve(|path| {
            if path.contains("sendInitialEvents") {
                answer("", 200, &[&event("ADDED", "a", 3), &all_there(5)])
            } else if path == "/readyz" {
                answer("", 200, &["ok"])
            } else {
                answer("", 404, &[NO_SUCH_KIND])
            }
        })
    }

    /// The cached objects after the first list.
    async fn cache(&self) -> (Vec<String>, mpsc::Receiver<Vec<Record>>) {
        let observed = self.cache.list_and_watch(Duration::from_secs(600)).await.unwrap();
        self.looked.send_replace(true);
        (events(&observed.records), observed.changes)
    }

    /// Seconds after the beginning at which each request was made.
    fn timeout_seconds(&self) -> Vec<u64> {
        self.requests.lock().unwrap().iter().map(|(_, at)| (*at - self.begun).as_secs()).collect()
    }
}

impl Drop for WatchHarness {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn response(answer: Answer) -> Response<Body> {
    let mut response = Response::builder().status(answer.code);
    if let Some(timeout_seconds) = answer.retry_after {
        response = response.header("Retry-After", timeout_seconds);
    }
    response.body(Body::from(answer.lines.into_bytes())).unwrap()
}

fn events(seen: &[Record]) -> Vec<String> {
    let event = |seen: &Record| match seen {
        Record::Plain(change) => match &**change {
            v1::change::Change::Namespace(record) => record.name.clone(),
            v1::change::Change::Removal(removal) => format!("-{}", removal.name),
            other => format!("{other:?}"),
        },
        other => format!("{other:?}"),
    };
    seen.iter().map(event).collect()
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_is_followed_from_its_resource_version() {
    let harness = WatchHarness::new(vec![
        answer("sendInitialEvents=true", 200, &[&event("ADDED", "a", 3), &event("ADDED", "b", 2), &all_there(5)]),
        // The first watch ended; the next one resumes at 5, and reaches 9.
        answer("resourceVersion=5", 200, &[&event("DELETED", "a", 8), &event("ADDED", "c", 9)]),
        answer("resourceVersion=9", 200, &[]),
    ]);
    let (seen, mut changes) = harness.cache().await;
    assert_eq!(seen, ["a", "b"]);
    assert_eq!(events(&changes.recv().await.unwrap()), ["-a", "c"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_resource_version_causes_a_relist_and_only_the_difference_is_sent() {
    let harness = WatchHarness::new(vec![
        answer("sendInitialEvents=true", 200, &[&event("ADDED", "a", 3), &event("ADDED", "b", 2), &all_there(5)]),
        answer("resourceVersion=5", 200, &[FORGOTTEN]),
        answer("sendInitialEvents=true", 200, &[&event("ADDED", "b", 2), &event("ADDED", "c", 7), &all_there(8)]),
    ]);
    let (_, mut changes) = harness.cache().await;
    assert_eq!(events(&changes.recv().await.unwrap()), ["c", "-a"]);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_list_is_not_used() {
    let harness = WatchHarness::new(vec![
        answer("sendInitialEvents=true", 200, &[&event("ADDED", "a", 3)]),
        answer("sendInitialEvents=true", 200, &[&event("ADDED", "a", 3), &event("ADDED", "b", 2), &all_there(5)]),
    ]);
    assert_eq!(harness.cache().await.0, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_stream_lists_is_asked_for_pages() {
    let harness = WatchHarness::new(vec![
        answer("sendInitialEvents=true", 422, &[NO_STREAMS]),
        answer("limit=500", 200, &[&page(&["a"], 7, "token")]),
        answer("continue=token", 200, &[&page(&["b"], 7, "")]),
        answer("resourceVersion=7", 200, &[FORGOTTEN]),
        // Streaming lists are not requested again.
        answer("limit=500", 200, &[&page(&["b"], 9, "")]),
    ]);
    let (seen, mut changes) = harness.cache().await;
    assert_eq!(seen, ["a", "b"]);
    assert_eq!(events(&changes.recv().await.unwrap()), ["-a"]);
}

#[tokio::test(start_paused = true)]
async fn a_busy_api_server_is_asked_again_after_the_requested_wait() {
    let harness = WatchHarness::new(vec![
        Answer { retry_after: Some("7"), ..answer("watch=1", 429, &["{}"]) },
        answer("sendInitialEvents=true", 200, &[&all_there(5)]),
    ]);
    harness.cache().await;
    assert_eq!(harness.timeout_seconds()[..2], [0, 7]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_there_is_reported_and_no_reason_to_wait_once_the_api_server_is_ready() {
    let mut harness = WatchHarness::new(vec![
        answer("watch=1", 404, &[NO_SUCH_KIND]),
        answer("/readyz", 500, &[]),
        answer("watch=1", 404, &[NO_SUCH_KIND]),
        answer("/readyz", 200, &["ok"]),
        // Half a minute later the kind is installed.
        answer("sendInitialEvents=true", 200, &[&event("ADDED", "a", 3), &all_there(5)]),
    ]);
    let (seen, mut changes) = harness.cache().await;
    assert!(seen.is_empty());
    assert_eq!(harness.absent_kinds.recv().await.as_deref(), Some("namespaces"));
    assert_eq!(events(&changes.recv().await.unwrap()), ["a"]);
    assert!(harness.absent_kinds.is_empty(), "reported once");
}

#[tokio::test(start_paused = true)]
async fn a_kind_denied_for_a_short_time_is_not_removed() {
    let denials = (0..4).map(|_| answer("resourceVersion=5", 404, &[NO_SUCH_KIND]));
    let mut script = vec![answer("sendInitialEvents=true", 200, &[&event("ADDED", "a", 3), &all_there(5)])];
    script.extend(denials);
    script.push(answer("resourceVersion=5", 200, &[&event("ADDED", "b", 6)]));
    let harness = WatchHarness::new(script);
    let (_, mut changes) = harness.cache().await;
    assert_eq!(events(&changes.recv().await.unwrap()), ["b"], "a is still there");
}

#[tokio::test(start_paused = true)]
async fn a_kind_denied_for_a_minute_by_a_ready_api_server_is_removed() {
    let harness = WatchHarness::denying();
    let (seen, mut changes) = harness.cache().await;
    assert_eq!(seen, ["a"]);
    assert_eq!(events(&changes.recv().await.unwrap()), ["-a"]);
    let after = harness.begun.elapsed();
    // The last wait before the removal is accepted is at most 30 s, the longest backoff.
    assert!((Duration::from_secs(60)..Duration::from_secs(91)).contains(&after), "{after:?}");
}

/// Maximum number of requests without progress that the API server answers; then a watch that never
/// waits ends here.
const ENOUGH: usize = 1_000;

/// Paths that are requested within ten minutes after the first list, when every further watch is
/// answered by `further`.
async fn asked_in_ten_minutes(streams: bool, further: fn() -> Answer) -> Vec<String> {
    let count = std::sync::atomic::AtomicUsize::new(0);
    let harness = WatchHarness::serve(move |path| {
        if count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= ENOUGH {
            answer("", SILENT, &[])
        } else if path.contains("sendInitialEvents") && !streams {
            answer("", 422, &[NO_STREAMS])
        } else if path.contains("sendInitialEvents") {
            answer("", 200, &[&event("ADDED", "a", 3), &all_there(5)])
        } else if path.contains("limit=500") {
            answer("", 200, &[&page(&["a"], 5, "")])
        } else {
            further()
        }
    });
    let (seen, _changes) = harness.cache().await;
    assert_eq!(seen, ["a"]);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let requests = harness.requests.lock().unwrap();
    requests.iter().map(|(path, _)| path.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_are_begun_further_and_further_apart() {
    let requests = asked_in_ten_minutes(true, || answer("", 200, &[])).await;
    // Waits of 0.25, 0.5, … 16 s are seven, and 31.75 s at most together; from then on each is 15
    // to 30 s: at most 39 more in 600 s, and the list and its end are the first two.
    assert!((20..=2 + 7 + 39).contains(&requests.len()), "{} requests in ten minutes", requests.len());
}

#[tokio::test(start_paused = true)]
async fn repeatedly_expired_resource_versions_back_off() {
    for streams in [true, false] {
        let requests = asked_in_ten_minutes(streams, || answer("", 200, &[FORGOTTEN])).await;
        let pictures = requests.iter().filter(|path| path.contains("sendInitialEvents") || path.contains("limit=500"));
        let pictures = pictures.count();
        // As above: a relist after each wait.
        assert!((10..=2 + 7 + 39).contains(&pictures), "{pictures} pictures in ten minutes (streams: {streams})");
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_api_server_that_asks_for_no_time_at_all_is_given_some() {
    let refusal = || Answer { retry_after: Some("0"), ..answer("", 429, &["{}"]) };
    let requests = asked_in_ten_minutes(true, refusal).await;
    assert!(requests.len() <= 2 + 7 + 39, "{} requests in ten minutes", requests.len());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_delivers_an_object_resumes_at_once() {
    let mut script = vec![answer("sendInitialEvents=true", 200, &[&event("ADDED", "a", 3), &all_there(5)])];
    script.extend((6..40).map(|version| answer("&resourceVersion=", 200, &[&event("ADDED", "b", version)])));
    let harness = WatchHarness::new(script);
    harness.cache().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The end of the initial watch is followed by a wait of a quarter of a second at most.
    let requests = harness.requests.lock().unwrap().len();
    assert_eq!(requests, 36, "the picture, 34 watches that bring something, and one that waits");
}

/// A namespace whose labels are no map.
fn unreadable_event(name: &str, version: u32) -> String {
    format!(
        r#"{{"type":"MODIFIED","object":{{"metadata":{{"name":"{name}","resourceVersion":"{version}","labels":"none"}}}}}}"#
    )
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_object_is_not_removed_and_blocks_no_other() {
    let there = [event("ADDED", "a", 3), event("ADDED", "b", 3), all_there(5)];
    let again = [unreadable_event("a", 7), event("ADDED", "b", 3), event("ADDED", "d", 8), all_there(9)];
    let harness = WatchHarness::new(vec![
        answer("sendInitialEvents=true", 200, &there.each_ref().map(String::as_str)),
        answer("resourceVersion=5", 200, &[&unreadable_event("a", 6), &event("ADDED", "c", 7)]),
        answer("resourceVersion=7", 200, &[FORGOTTEN]),
        answer("sendInitialEvents=true", 200, &again.each_ref().map(String::as_str)),
    ]);
    let (seen, mut changes) = harness.cache().await;
    assert_eq!(seen, ["a", "b"]);
    assert_eq!(events(&changes.recv().await.unwrap()), ["c"]);
    assert_eq!(events(&changes.recv().await.unwrap()), ["d", "-c"], "a is there");
}

#[test]
fn writes_of_karpenter_are_dated() {
    let fields = |manager: &str| {
        format!(
            r#"{{"metadata":{{"managedFields":[{{"manager":"kubectl","time":"2026-01-02T00:00:00Z"}},
                {{"manager":"{manager}","time":"2026-01-01T00:00:00Z"}},{{"manager":"{manager}"}}]}}}}"#
        )
    };
    // 2026-01-01T00:00:00Z is 1,767,225,600 s after 1970.
    assert_eq!(last_karpenter_write(&fields("karpenter")), 1_767_225_600_000);
    assert_eq!(last_karpenter_write(&fields("fleetwright-agent")), 0);
    assert_eq!(last_karpenter_write("{}"), 0);
}
