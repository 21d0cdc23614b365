//! Time from a key to its picture with 100,000 nodes: `cargo bench -p fleetwright-top`.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a benchmark measures time")]

use std::time::{Duration, Instant};

use ratatui_core::backend::TestBackend;
use ratatui_core::terminal::Terminal;
use top::{Change, Cluster, Delta, Feed, Key, Kind, Node, Pod, Stage, Top};

const NODES: u32 = 100_000;
const CLUSTERS: u32 = 1_000;
const PODS: u32 = 10_000;
const RUNS: usize = 15;
const NOW_MS: i64 = 1_800_000_000_000;

/// A permutation of numbers, so that rows are in no order.
fn scattered(index: u32) -> u32 {
    index.wrapping_mul(2_654_435_761) % 1_000_003
}

fn node(index: u32) -> Node {
    let types =
        ["m6i.large", "m6i.xlarge", "c7g.2xlarge", "r6a.4xlarge", "m7i-flex.8xlarge", "c6in.12xlarge", "m5.large"];
    let number = scattered(index);
    Node {
        name: format!(
            "clusters/c{:04}/nodes/ip-10-{}-{}.eu-west-1.compute.internal",
            index / 100,
            index / 250,
            index % 250
        ),
        node_claim: format!("default-{number:05}"),
        pool: format!("pool-{}", index % 17),
        instance_type: types[number as usize % types.len()].to_owned(),
        zone: format!("eu-west-1{}", ["a", "b", "c"][index as usize % 3]),
        capacity_type: ["spot", "on-demand"][number as usize % 2].to_owned(),
        stage: [Stage::Ready, Stage::Ready, Stage::Ready, Stage::Draining, Stage::Booting][number as usize % 5],
        created_ms: Some(NOW_MS - i64::from(number) * 1_000),
        price_micro_usd: i64::from(number),
        pods: number % 110,
        cpu_requested_millis: i64::from(number % 4_000),
        cpu_allocatable_millis: 3_920,
        memory_requested_bytes: i64::from(number % 15) << 30,
        memory_allocatable_bytes: 15 << 30,
        ..Node::default()
    }
}

fn fleet() -> Top {
    let mut top = Top::new(Kind::Nodes, None, true);
    let cluster = |index: u32| Cluster { name: format!("clusters/c{index:04}"), nodes: 100, ..Cluster::default() };
    top.apply(Change::Clusters(Delta::of((0..CLUSTERS).map(cluster).collect())), NOW_MS);
    let nodes: Vec<Node> = (0..NODES).map(node).collect();
    for page in nodes.chunks(1_000) {
        top.apply(Change::Nodes(Delta::of(page.to_vec())), NOW_MS);
    }
    let pod = |index: u32| Pod {
        name: format!("clusters/c{:04}/namespaces/shop/pods/web-{index}", index % CLUSTERS),
        created_ms: Some(NOW_MS - i64::from(scattered(index))),
        ..Pod::default()
    };
    top.apply(Change::Pods(Delta::of((0..PODS).map(pod).collect())), NOW_MS);
    for kind in [Kind::Clusters, Kind::Nodes, Kind::Pods] {
        top.apply(Change::Feed(kind, Feed::Live), NOW_MS);
    }
    top
}

/// Times of keys, each with its picture.
struct Times(Vec<Duration>);

impl Times {
    fn print(mut self, what: &str) {
        self.0.sort();
        let millis = |time: Duration| time.as_secs_f64() * 1_000.0;
        let rank = |percent: usize| millis(self.0[(self.0.len() - 1) * percent / 100]);
        println!("  {what:<52} {:>8.2} {:>8.2} {:>8.2}", rank(50), rank(95), rank(100));
    }
}

struct Bench {
    top: Top,
    terminal: Terminal<TestBackend>,
    now_ms: i64,
    changed: u32,
}

impl Bench {
    /// Handles the keys, each after the message of `before`, if any, and before a picture.
    fn measure(&mut self, what: &str, keys: &[Key], before: impl Fn(&mut Self) -> Option<Change>) {
        let mut times = Vec::new();
        for _ in 0..RUNS {
            for key in keys {
                // Each key comes after the time in which the order is held.
                self.now_ms += 10_000;
                let message = before(self);
                let begin = Instant::now();
                if let Some(message) = message {
                    self.top.apply(message, self.now_ms);
                }
                self.top.handle(*key, self.now_ms);
                self.draw();
                times.push(begin.elapsed());
            }
        }
        Times(times).print(what);
    }

    fn draw(&mut self) {
        let Self { top, terminal, now_ms, .. } = self;
        terminal.draw(|frame| top.draw(frame, *now_ms)).map(drop).unwrap_or_else(|error| match error {});
    }

    /// A message of a watch with this number of nodes.
    fn change(&mut self, rows: u32) -> Option<Change> {
        let changed = |index: u32| Node { pods: index % 7, ..node(scattered(index) % NODES) };
        let rows: Vec<Node> = (self.changed..self.changed + rows).map(changed).collect();
        self.changed += 1_000;
        Some(Change::Nodes(Delta::of(rows)))
    }
}

fn main() {
    for (width, height) in [(80, 24), (200, 50)] {
        let terminal = Terminal::new(TestBackend::new(width, height)).unwrap_or_else(|error| match error {});
        let begin = Instant::now();
        let mut bench = Bench { top: fleet(), terminal, now_ms: NOW_MS, changed: 0 };
        bench.draw();
        println!(
            "{width}x{height}: {NODES} nodes of {CLUSTERS} clusters, loaded and drawn in {:.0} ms",
            begin.elapsed().as_secs_f64() * 1_000.0
        );
        println!("  {:<52} {:>8} {:>8} {:>8}", "key to picture, ms", "median", "95%", "longest");
        let none = |_: &mut Bench| None;
        bench.measure("selection moves", &[Key::Down, Key::PageDown, Key::Up, Key::End, Key::Home], none);
        bench.measure("order by each column in turn", &[Key::Char('>'); 18], none);
        bench.measure("order reversed", &[Key::Char('S')], none);
        bench.measure(
            "filter of words typed and cleared",
            &"/zone-1a spot".chars().map(Key::Char).chain([Key::Escape]).collect::<Vec<_>>(),
            none,
        );
        bench.measure(
            "filter of words that select a third",
            &"/west-1b".chars().map(Key::Char).chain([Key::Escape]).collect::<Vec<_>>(),
            none,
        );
        bench.measure(
            "filter of the API typed and cleared",
            &"/zone = *-1a AND pod_count < 9".chars().map(Key::Char).chain([Key::Escape]).collect::<Vec<_>>(),
            none,
        );
        bench.measure(
            "views: clusters, nodes, pods, and back",
            &[Key::Char('1'), Key::Enter, Key::Escape, Key::Char('3'), Key::Char('2')],
            none,
        );
        bench.top.handle(Key::Char('2'), bench.now_ms);
        bench.measure("a key after 1,000 nodes changed", &[Key::Char('?'), Key::Escape], |bench| bench.change(1_000));
        bench.measure("a key after 10,000 nodes changed", &[Key::Char('?'), Key::Escape], |bench| bench.change(10_000));
    }
}
