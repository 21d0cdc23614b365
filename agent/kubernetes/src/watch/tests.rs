//! What a watch makes of an API server's answers. The answers are written down; the requests are what the watch asks.

use std::sync::Mutex;

use agent::Seen;
use http::{Request, Response};
use kube::Client;
use tower::service_fn;

use super::*;

const KIND: v1::ObjectKind = v1::ObjectKind::Namespace;

/// One answer: to a request whose path holds this, with this code, header and these lines. A watch ends after its lines.
struct Answer {
    to: &'static str,
    code: u16,
    retry_after: Option<&'static str>,
    lines: String,
}

/// The code of an answer that never comes.
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

/// A watch of namespaces on an API server that answers by `script`, in this order, and then no more.
struct World {
    picture: Arc<Picture>,
    asked: Arc<Mutex<Vec<(String, Instant)>>>,
    task: tokio::task::JoinHandle<()>,
    /// Whether the picture has been looked at. What follows a picture is answered only then, so that it comes as changes.
    looked: tokio::sync::watch::Sender<bool>,
    begun: Instant,
}

impl World {
    fn new(script: Vec<Answer>) -> Self {
        let script = Mutex::new(VecDeque::from(script));
        Self::serve(move |path| {
            // A watch that ends is begun again; this one waits for ever.
            let Some(answer) = script.lock().unwrap().pop_front() else { return answer("", SILENT, &[]) };
            assert!(path.contains(answer.to), "{path} is asked, not {}", answer.to);
            answer
        })
    }

    fn serve(answer_to: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        let looked = tokio::sync::watch::Sender::new(false);
        let look = looked.clone();
        let server = service_fn(move |request: Request<Body>| {
            let path = request.uri().to_string();
            log.lock().unwrap().push((path.clone(), Instant::now()));
            let answer = answer_to(&path);
            let mut look = look.subscribe();
            async move {
                if path.contains("&resourceVersion=") {
                    look.wait_for(|looked| *looked).await.map_err(std::io::Error::other)?;
                }
                match answer.code {
                    SILENT => std::future::pending().await,
                    _ => Ok::<_, std::io::Error>(response(answer)),
                }
            }
        });
        let picture = Arc::new(Picture::of([KIND]));
        let watched = WATCHED.into_iter().find(|watched| matches!(watched.what, What::Objects(KIND, _))).unwrap();
        let watcher = Watcher {
            api: Api::new(Client::new(server, "default")),
            picture: Arc::clone(&picture),
            watched,
            seconds: 290,
            streams_lists: true,
            shared: Shared::default(),
            stands_at: None,
            denied_since: None,
            progressed: false,
            unread: Vec::new(),
            unread_told: BTreeSet::new(),
            backoff: Backoff::up_to(LONGEST_WAIT_MS, 1),
        };
        Self { picture, asked, task: tokio::spawn(watcher.run()), looked, begun: Instant::now() }
    }

    /// One that shows a namespace and from then on denies that there are any.
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

    /// What is seen once there is a picture.
    async fn picture(&self) -> (Vec<String>, tokio::sync::mpsc::Receiver<Vec<Seen>>) {
        let observed = self.picture.observe(Duration::from_secs(600)).await.unwrap();
        self.looked.send_replace(true);
        (words(&observed.records), observed.changes)
    }

    /// Seconds after the beginning at which each request was made.
    fn seconds(&self) -> Vec<u64> {
        self.asked.lock().unwrap().iter().map(|(_, at)| (*at - self.begun).as_secs()).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn response(answer: Answer) -> Response<Body> {
    let mut response = Response::builder().status(answer.code);
    if let Some(seconds) = answer.retry_after {
        response = response.header("Retry-After", seconds);
    }
    response.body(Body::from(answer.lines.into_bytes())).unwrap()
}

fn words(seen: &[Seen]) -> Vec<String> {
    let word = |seen: &Seen| match seen {
        Seen::Plain(change) => match &**change {
            v1::change::Change::Namespace(record) => record.name.clone(),
            v1::change::Change::Removal(removal) => format!("-{}", removal.name),
            other => format!("{other:?}"),
        },
        other => format!("{other:?}"),
    };
    seen.iter().map(word).collect()
}

#[tokio::test(start_paused = true)]
async fn a_streamed_picture_is_followed_from_where_it_stands() {
    let world = World::new(vec![
        answer("sendInitialEvents=true", 200, &[&event("ADDED", "a", 3), &event("ADDED", "b", 2), &all_there(5)]),
        // The first watch ended; the next one goes on at 5, and says 9 in the end.
        answer("resourceVersion=5", 200, &[&event("DELETED", "a", 8), &event("ADDED", "c", 9)]),
        answer("resourceVersion=9", 200, &[]),
    ]);
    let (seen, mut changes) = world.picture().await;
    assert_eq!(seen, ["a", "b"]);
    assert_eq!(words(&changes.recv().await.unwrap()), ["-a", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_forgotten_costs_a_picture_and_only_the_difference_is_told() {
    let world = World::new(vec![
        answer("sendInitialEvents=true", 200, &[&event("ADDED", "a", 3), &event("ADDED", "b", 2), &all_there(5)]),
        answer("resourceVersion=5", 200, &[FORGOTTEN]),
        answer("sendInitialEvents=true", 200, &[&event("ADDED", "b", 2), &event("ADDED", "c", 7), &all_there(8)]),
    ]);
    let (_, mut changes) = world.picture().await;
    assert_eq!(words(&changes.recv().await.unwrap()), ["c", "-a"]);
}

#[tokio::test(start_paused = true)]
async fn a_picture_that_breaks_off_is_no_picture() {
    let world = World::new(vec![
        answer("sendInitialEvents=true", 200, &[&event("ADDED", "a", 3)]),
        answer("sendInitialEvents=true", 200, &[&event("ADDED", "a", 3), &event("ADDED", "b", 2), &all_there(5)]),
    ]);
    assert_eq!(world.picture().await.0, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_stream_lists_is_asked_for_pages() {
    let world = World::new(vec![
        answer("sendInitialEvents=true", 422, &[NO_STREAMS]),
        answer("limit=500", 200, &[&page(&["a"], 7, "token")]),
        answer("continue=token", 200, &[&page(&["b"], 7, "")]),
        answer("resourceVersion=7", 200, &[FORGOTTEN]),
        // It is not asked to stream again.
        answer("limit=500", 200, &[&page(&["b"], 9, "")]),
    ]);
    let (seen, mut changes) = world.picture().await;
    assert_eq!(seen, ["a", "b"]);
    assert_eq!(words(&changes.recv().await.unwrap()), ["-a"]);
}

#[tokio::test(start_paused = true)]
async fn a_busy_api_server_is_left_alone_for_as_long_as_it_says() {
    let world = World::new(vec![
        Answer { retry_after: Some("7"), ..answer("watch=1", 429, &["{}"]) },
        answer("sendInitialEvents=true", 200, &[&all_there(5)]),
    ]);
    world.picture().await;
    assert_eq!(world.seconds()[..2], [0, 7]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_there_is_no_reason_to_wait_once_the_api_server_is_ready() {
    let world = World::new(vec![
        answer("watch=1", 404, &[NO_SUCH_KIND]),
        answer("/readyz", 500, &[]),
        answer("watch=1", 404, &[NO_SUCH_KIND]),
        answer("/readyz", 200, &["ok"]),
        // Half a minute later somebody has installed it.
        answer("sendInitialEvents=true", 200, &[&event("ADDED", "a", 3), &all_there(5)]),
    ]);
    let (seen, mut changes) = world.picture().await;
    assert!(seen.is_empty());
    assert_eq!(words(&changes.recv().await.unwrap()), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_was_there_is_not_gone_because_the_api_server_denies_it_for_a_moment() {
    let denials = (0..4).map(|_| answer("resourceVersion=5", 404, &[NO_SUCH_KIND]));
    let mut script = vec![answer("sendInitialEvents=true", 200, &[&event("ADDED", "a", 3), &all_there(5)])];
    script.extend(denials);
    script.push(answer("resourceVersion=5", 200, &[&event("ADDED", "b", 6)]));
    let world = World::new(script);
    let (_, mut changes) = world.picture().await;
    assert_eq!(words(&changes.recv().await.unwrap()), ["b"], "a is still there");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_denied_for_a_minute_by_an_api_server_that_is_ready_is_gone() {
    let world = World::denying();
    let (seen, mut changes) = world.picture().await;
    assert_eq!(seen, ["a"]);
    assert_eq!(words(&changes.recv().await.unwrap()), ["-a"]);
    let after = world.begun.elapsed();
    // The last wait before belief is at most 30 s, the longest that grows.
    assert!((Duration::from_secs(60)..Duration::from_secs(91)).contains(&after), "{after:?}");
}

/// An API server that is asked more often than this without having brought anything falls silent, so that a watch which never
/// waits still comes to an end here.
const ENOUGH: usize = 1_000;

/// Paths that are asked for within ten minutes after the first picture, when every further watch is answered by `further`.
async fn asked_in_ten_minutes(streams: bool, further: fn() -> Answer) -> Vec<String> {
    let count = std::sync::atomic::AtomicUsize::new(0);
    let world = World::serve(move |path| {
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
    let (seen, _changes) = world.picture().await;
    assert_eq!(seen, ["a"]);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let asked = world.asked.lock().unwrap();
    asked.iter().map(|(path, _)| path.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_are_begun_further_and_further_apart() {
    let asked = asked_in_ten_minutes(true, || answer("", 200, &[])).await;
    // Waits of 0.25, 0.5, … 16 s are seven, and 31.75 s at most together; from then on each is 15 to 30 s: at most 39 more in
    // 600 s, and the picture and its end are the first two.
    assert!((20..=2 + 7 + 39).contains(&asked.len()), "{} requests in ten minutes", asked.len());
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_forgotten_again_and_again_does_not_cost_one_picture_after_the_other() {
    for streams in [true, false] {
        let asked = asked_in_ten_minutes(streams, || answer("", 200, &[FORGOTTEN])).await;
        let pictures = asked.iter().filter(|path| path.contains("sendInitialEvents") || path.contains("limit=500"));
        let pictures = pictures.count();
        // As above: a picture after each wait.
        assert!((10..=2 + 7 + 39).contains(&pictures), "{pictures} pictures in ten minutes (streams: {streams})");
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_api_server_that_asks_for_no_time_at_all_is_given_some() {
    let refusal = || Answer { retry_after: Some("0"), ..answer("", 429, &["{}"]) };
    let asked = asked_in_ten_minutes(true, refusal).await;
    assert!(asked.len() <= 2 + 7 + 39, "{} requests in ten minutes", asked.len());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_brings_an_object_is_gone_on_with_at_once() {
    let mut script = vec![answer("sendInitialEvents=true", 200, &[&event("ADDED", "a", 3), &all_there(5)])];
    script.extend((6..40).map(|version| answer("&resourceVersion=", 200, &[&event("ADDED", "b", version)])));
    let world = World::new(script);
    world.picture().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The end of the picture's own watch is waited out, for a quarter of a second at most.
    let asked = world.asked.lock().unwrap().len();
    assert_eq!(asked, 36, "the picture, 34 watches that bring something, and one that waits");
}

/// A namespace whose labels are no map.
fn unreadable(name: &str, version: u32) -> String {
    format!(
        r#"{{"type":"MODIFIED","object":{{"metadata":{{"name":"{name}","resourceVersion":"{version}","labels":"none"}}}}}}"#
    )
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_any_more_is_not_gone_and_keeps_none_from_being_seen() {
    let there = [event("ADDED", "a", 3), event("ADDED", "b", 3), all_there(5)];
    let again = [unreadable("a", 7), event("ADDED", "b", 3), event("ADDED", "d", 8), all_there(9)];
    let world = World::new(vec![
        answer("sendInitialEvents=true", 200, &there.each_ref().map(String::as_str)),
        answer("resourceVersion=5", 200, &[&unreadable("a", 6), &event("ADDED", "c", 7)]),
        answer("resourceVersion=7", 200, &[FORGOTTEN]),
        answer("sendInitialEvents=true", 200, &again.each_ref().map(String::as_str)),
    ]);
    let (seen, mut changes) = world.picture().await;
    assert_eq!(seen, ["a", "b"]);
    assert_eq!(words(&changes.recv().await.unwrap()), ["c"]);
    assert_eq!(words(&changes.recv().await.unwrap()), ["d", "-c"], "a is there");
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
    assert_eq!(last_write_of_karpenter(&fields("karpenter")), 1_767_225_600_000);
    assert_eq!(last_write_of_karpenter(&fields("fleetwright-agent")), 0);
    assert_eq!(last_write_of_karpenter("{}"), 0);
}
