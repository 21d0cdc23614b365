//! The dashboard in a browser: every view has an address, texts of clusters are texts, and all is reached by keyboard.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use e2e::{Browser, Program, RunningProcess, TempDir};
use fleetwright_proto::v1;
use fleetwright_proto::v1::change::Change;
use fleetwright_proto::v1::connect_response::Message as Answer;
use prost::Message;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::task::block_in_place;

use crate::agent_stream::AgentStream;
use crate::{SIMULATOR, TIMEOUT, fleetwright};

/// A reason with markup, a script, a control character and characters that reverse the text after them.
const HOSTILE: &str =
    "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script> a\u{202e}b";

const LISTENERS: [&str; 5] = ["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"];

fn serve() -> (RunningProcess, [String; 2]) {
    let server = Program::new(SIMULATOR, &LISTENERS).start();
    let urls = server.wait_for_urls(TIMEOUT);
    (server, urls)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_view_has_an_address_and_shows_texts_of_clusters_as_texts() {
    let test = "every_view_has_an_address_and_shows_texts_of_clusters_as_texts";
    let Some(mut browser) = block_in_place(|| Browser::start(test)) else { return };
    let (server, [grpc, http]) = serve();
    block_in_place(|| {
        browser.open(&http);
        browser.wait_for(&["Problems", "No cluster yet", "kubectl apply --server-side -k deploy/agent/run", "as of"]);
    });
    let mut agent = AgentStream::open(&grpc, "shop").await;
    assert!(matches!(agent.answer().await, Ok(Answer::Welcome(_))));
    block_in_place(|| {
        let freeze = ["freeze", "--reason", HOSTILE, "--cluster", "shop", "--server", &grpc];
        assert_eq!(fleetwright(&freeze).status, 0);
        let shown = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script> a\\u202eb";
        browser.wait_for(&[
            "1 problem",
            "the agent is sending the state of the cluster",
            shown,
            "fleetwright thaw --id 1",
        ]);
        for (path, words) in [
            ("/clusters", &["Clusters", "1 cluster, 0 nodes", "shop"][..]),
            ("/clusters/shop", &["Cluster shop", "It has no nodes.", "No pod waits for a node.", shown]),
            ("/clusters/shop/nodes/a", &["Node a", "It cannot be read: "]),
            ("/no/such/view", &["There is no such view"]),
            ("/clusters/nothing", &["Cluster nothing", "there is no cluster \"nothing\""]),
            ("/decisions", &["Nothing was decided yet."]),
            (
                "/cost",
                &[
                    "There are no machines.",
                    "no invoice",
                    "No machine has cost anything",
                    "No decision has removed machines",
                ],
            ),
            ("/capacity", &[shown, "No offering is excluded now.", "No capacity is held."]),
        ] {
            browser.open(&format!("{http}{path}"));
            browser.wait_for(words);
        }
        assert_ne!(browser.evaluate("document.title"), "taken");
        assert_eq!(browser.evaluate("document.querySelectorAll('#page img, #page script').length"), 0);
        let errors: Vec<&String> = browser.errors().iter().filter(|error| !error.contains("404")).collect();
        assert_eq!(errors, Vec::<&String>::new(), "nothing else than unknown names was refused");
    });
    drop(agent);
    assert_eq!(server.stop(TIMEOUT), 0);
}

fn definition(content: Vec<u8>) -> v1::Definition {
    v1::Definition { hash: Sha256::digest(&content)[..16].to_vec(), content }
}

/// An agent may report any names, whatever the API server of its cluster would allow.
#[tokio::test(flavor = "multi_thread")]
async fn names_of_pods_nodes_pools_and_clusters_are_shown_as_texts() {
    let test = "names_of_pods_nodes_pools_and_clusters_are_shown_as_texts";
    let Some(mut browser) = block_in_place(|| Browser::start(test)) else { return };
    const NAME: &str = "<img src=x onerror=\"document.title='taken'\">\u{202e}\u{7}x";
    let shown = "<img src=x onerror=\"document.title='taken'\">\\u202e\\u0007x";
    let (server, [grpc, http]) = serve();
    let refused = AgentStream::open_as(&grpc, NAME, "another").await.answer().await;
    assert!(refused.is_err(), "no cluster has such a name: {refused:?}");
    let mut agent = AgentStream::open(&grpc, "shop").await;
    assert!(matches!(agent.answer().await, Ok(Answer::Welcome(_))));
    let shape = definition(br#"{"spec":{"containers":[{"resources":{"requests":{"cpu":"500m"}}}]}}"#.to_vec());
    let labels = definition(v1::LabelSet::default().encode_to_vec());
    let pod = v1::PodRecord {
        namespace: "default".to_owned(),
        name: NAME.to_owned(),
        uid: NAME.to_owned(),
        shape: shape.hash.clone().into(),
        labels: labels.hash.clone().into(),
        phase: v1::PodPhase::Pending.into(),
        scheduled_reason: "Unschedulable".to_owned(),
        ..v1::PodRecord::default()
    };
    let node = v1::NodeRecord { name: NAME.to_owned(), uid: NAME.to_owned(), ..v1::NodeRecord::default() };
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": NAME},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef":
            {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": NAME}}}},
    });
    let pool = v1::ManifestRecord {
        kind: v1::ObjectKind::NodePool.into(),
        name: NAME.to_owned(),
        json: pool.to_string().into_bytes(),
        resource_version: "1".to_owned(),
    };
    let records = [Change::Manifest(pool), Change::Node(Box::new(node)), Change::Pod(Box::new(pod))];
    let definitions = [Change::DefinePodShape(shape), Change::DefineLabelSet(labels)];
    agent.show(definitions.into_iter().chain(records).collect()).await;
    block_in_place(|| {
        browser.open(&format!("{http}/clusters/shop"));
        let pool = format!("NodePool {shown}");
        let page = browser.wait_for(&[&format!("default/{shown}"), &pool]);
        assert!(page.matches(shown).count() >= 3, "pod, NodePool and node: {page}");
        for path in ["", "clusters", "decisions", "cost"] {
            browser.open(&format!("{http}/{path}"));
            browser.wait_for(&["as of"]);
            assert_eq!(browser.evaluate("document.querySelectorAll('#page img, #page script').length"), 0, "{path}");
            assert_ne!(browser.evaluate("document.title"), "taken", "{path}");
        }
        // A link of a colleague, with such names in its address.
        for path in ["clusters/%3Cimg%20src%3Dx%3E%E2%80%AE", "clusters/shop/nodes/%3Cimg%20src%3Dx%3E%E2%80%AE"] {
            browser.open(&format!("{http}/{path}"));
            browser.wait_for(&["<img src=x>\\u202e", "It cannot be read"]);
            assert_eq!(browser.evaluate("document.querySelectorAll('#page img').length"), 0, "{path}");
        }
    });
    drop(agent);
    assert_eq!(server.stop(TIMEOUT), 0);
}

/// The source of axe-core, by which browsers find violations of accessibility; read once from npm's registry. Without npm, or
/// without a network, `test` is reported as skipped.
fn axe(test: &str) -> Option<String> {
    const PACKAGE: &str = "axe-core@4.14.1";
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(PACKAGE);
    let file = folder.join("package/axe.min.js");
    if !file.exists() {
        fs::create_dir_all(&folder).expect("a folder below target");
        let script = format!(
            "cd '{}' && npm pack --silent --fetch-retries=0 --fetch-timeout=30000 {PACKAGE} && tar xzf axe-core-*.tgz",
            folder.display()
        );
        let made = Command::new("/bin/sh").args(["-c", &script]).output().expect("a shell starts");
        if !made.status.success() {
            let why = String::from_utf8_lossy(&made.stderr).trim().to_owned();
            // Written directly to standard error: the test harness hides the output of passing tests.
            let _written = writeln!(std::io::stderr(), "SKIPPED {test}: npm cannot fetch {PACKAGE}: {why}");
            return None;
        }
    }
    Some(fs::read_to_string(file).expect("the file of the package"))
}

/// Looks at a view in both themes and on a phone: no rule of accessibility is violated. The pictures are kept below
/// `target/tmp/dashboard`, to be looked at.
fn look(browser: &mut Browser, axe: &str, (name, url, words): (&str, &str, &str), prepare: &str) {
    let pictures = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("dashboard");
    fs::create_dir_all(&pictures).expect("a folder below target");
    for (is_dark, is_phone) in [(false, false), (true, false), (false, true), (true, true)] {
        browser.emulate(is_dark, is_phone);
        browser.open(url);
        browser.wait_for(&[words]);
        browser.evaluate(prepare);
        browser.evaluate(&format!("{axe};0"));
        let run = "axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations.map((violation) => \
                   `${violation.id}: ${violation.nodes[0].html}: ${violation.nodes[0].failureSummary}`))";
        let found = browser.evaluate(run);
        let theme = if is_dark { "dark" } else { "light" };
        let device = if is_phone { "phone" } else { "wide" };
        assert_eq!(found, json!([]), "{name}, {theme}, {device}");
        let file = pictures.join(format!("{name}-{theme}-{device}.png"));
        fs::write(file, browser.screenshot()).expect("a file below target");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_view_violates_a_rule_of_accessibility() {
    let test = "no_view_violates_a_rule_of_accessibility";
    let Some(mut browser) = block_in_place(|| Browser::start(test)) else { return };
    let Some(axe) = block_in_place(|| axe(test)) else { return };
    // Without `--for` it goes on until it is stopped.
    let demo = Program::new(SIMULATOR, &["demo"]).start_with_stdout();
    block_in_place(|| {
        let line = demo.next_stdout_line(TIMEOUT);
        let http = line.split_whitespace().last().expect("an address").trim_end_matches('/').to_owned();
        for (name, path, words) in [
            ("problems", "/", "as of"),
            ("clusters", "/clusters?order=cluster", "amber"),
            ("cluster", "/clusters/blue", "NodePool"),
            ("node", "/clusters/blue/nodes/unknown", "It cannot be read"),
            ("decisions", "/decisions", "why (decision"),
            ("capacity", "/capacity", "Refused offerings"),
            ("cost", "/cost?by=pool", "machine hours"),
        ] {
            look(&mut browser, &axe, (name, &format!("{http}{path}"), words), "0");
        }
        let plots = ("spend", &*format!("{http}/cost?by=pool"), "machine hours");
        look(&mut browser, &axe, plots, "document.querySelector('.plot').scrollIntoView()");
        let press = "document.querySelector('button[aria-expanded]').click()";
        look(&mut browser, &axe, ("freeze", &format!("{http}/capacity"), "Freeze the whole fleet"), press);
    });
    // Its status says whether all pods ran, which they had no time for.
    let _status = demo.stop(TIMEOUT);
    let folder = TempDir::new();
    let trust = folder.write_file("auth.toml", "");
    let server = Program::new(SIMULATOR, &[&LISTENERS[..], &["--auth-file", &trust]].concat()).start();
    let [_grpc, http] = server.wait_for_urls(TIMEOUT);
    block_in_place(|| look(&mut browser, &axe, ("sign-in", &http, "Token"), "0"));
    assert_eq!(server.stop(TIMEOUT), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_stay_where_they_are_while_one_of_them_is_focused() {
    let test = "rows_stay_where_they_are_while_one_of_them_is_focused";
    let Some(mut browser) = block_in_place(|| Browser::start(test)) else { return };
    let (server, [grpc, http]) = serve();
    let mut agents = Vec::new();
    for name in ["bar", "shop"] {
        let mut agent = AgentStream::open_as(&grpc, name, name).await;
        assert!(matches!(agent.answer().await, Ok(Answer::Welcome(_))));
        agents.push(agent);
    }
    block_in_place(|| {
        let rows = "[...document.querySelectorAll('tbody tr')].map((row) => row.cells[0].innerText + ' ' + row.cells[1].innerText)";
        let shown = |browser: &mut Browser, expected: [&str; 2]| {
            let end = Instant::now() + TIMEOUT;
            while browser.evaluate(rows) != json!(expected) {
                assert!(Instant::now() < end, "{}", browser.evaluate(rows));
            }
        };
        // The worst first.
        browser.open(&format!("{http}/clusters?order=-state"));
        let waits = "waiting for a complete snapshot of the agent";
        shown(&mut browser, [&format!("bar {waits}"), &format!("shop {waits}")]);
        browser.evaluate("document.querySelector('tbody a').focus()");
        agents.pop();
        shown(&mut browser, [&format!("bar {waits}"), "shop agent disconnected"]);
        browser.evaluate("document.activeElement.blur()");
        shown(&mut browser, ["shop agent disconnected", &format!("bar {waits}")]);
    });
    drop(agents);
    assert_eq!(server.stop(TIMEOUT), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_walked_by_keyboard_and_says_when_the_server_is_gone() {
    let test = "the_page_is_walked_by_keyboard_and_says_when_the_server_is_gone";
    let Some(mut browser) = block_in_place(|| Browser::start(test)) else { return };
    let (server, [grpc, http]) = serve();
    let mut agent = AgentStream::open(&grpc, "shop").await;
    assert!(matches!(agent.answer().await, Ok(Answer::Welcome(_))));
    block_in_place(|| {
        browser.open(&http);
        browser.wait_for(&["1 problem"]);
        // The link over the navigation, the name of the product, problems, clusters.
        let mut focused = Vec::new();
        for _ in 0..4 {
            browser.press("Tab");
            focused.push(browser.evaluate("document.activeElement.textContent"));
        }
        assert_eq!(focused, ["Skip to the content", "Fleetwright", "Problems", "Clusters"]);
        browser.press("Enter");
        browser.wait_for(&["1 cluster, "]);
        assert_eq!(browser.evaluate("location.pathname"), "/clusters");
        assert_eq!(browser.evaluate("document.activeElement.id"), "main", "a reader is told of the new view");
        // What to find, the table, its first heading.
        for _ in 0..3 {
            browser.press("Tab");
        }
        browser.press("Enter");
        let order = "document.querySelector('th[aria-sort=ascending], th[aria-sort=descending]')?.textContent";
        assert_eq!(browser.evaluate(order), "Cluster ▲");
        assert_eq!(browser.evaluate("location.search"), "?order=cluster", "the order is in the address");
        browser.open(&format!("{http}/clusters?find=sh"));
        browser.wait_for(&["shop"]);
        browser.open(&format!("{http}/clusters?find=other"));
        browser.wait_for(&["No cluster has such a name."]);
        drop(agent);
        assert_eq!(server.stop(TIMEOUT), 0);
        // What was read stays, and is not taken for the present.
        browser.wait_for(&["It cannot be read now: ", "1 cluster, "]);
    });
}
