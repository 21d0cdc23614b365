//! The dashboard in a browser: every view has an address, texts of clusters are texts, and all is reached by keyboard.

use e2e::{Browser, Program, RunningProcess};
use fleetwright_proto::v1::connect_response::Message as Answer;
use tokio::task::block_in_place;

use crate::agent_stream::AgentStream;
use crate::{PROGRAM, TIMEOUT, fleetwright};

/// A reason with markup, a script, a control character and characters that reverse the text after them.
const HOSTILE: &str =
    "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script> a\u{202e}b";

fn serve() -> (RunningProcess, [String; 2]) {
    let listeners = ["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"];
    let server = Program::new(PROGRAM, &listeners).start();
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
        browser.wait_for(&["Problems", "Nothing is wrong", "as of"]);
    });
    let mut agent = AgentStream::open(&grpc, "shop").await;
    assert!(matches!(agent.answer().await, Ok(Answer::Welcome(_))));
    block_in_place(|| {
        let freeze = ["freeze", "--reason", HOSTILE, "--cluster", "shop", "--server", &grpc];
        assert_eq!(fleetwright(&freeze).status, 0);
        let shown = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script> a\\u202eb";
        browser.wait_for(&["1 problem", "its agent is sending its state", shown, "fleetwright thaw --id 1"]);
        for (path, words) in [
            ("/clusters", &["Clusters", "1 cluster, 0 nodes", "shop"][..]),
            ("/clusters/shop", &["Cluster shop", "It has no nodes.", "No pod waits for a node.", shown]),
            ("/clusters/shop/nodes/a", &["Node a", "It cannot be read: "]),
            ("/clusters/nothing", &["Cluster nothing", "there is no cluster \"nothing\""]),
            ("/decisions", &["Nothing was decided yet."]),
            ("/capacity", &[shown, "The cloud refused nothing in the last day.", "No capacity is held."]),
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
        for _ in 0..2 {
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
