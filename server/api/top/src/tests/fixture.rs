//! A small fleet.

use ratatui_core::backend::TestBackend;
use ratatui_core::terminal::Terminal;

use crate::row::{Cluster, Node, Pod, PodState, Stage};
use crate::{Change, Delta, Feed, Key, Kind, Top};

/// The time of the tests, in milliseconds since 1970.
pub(super) const NOW_MS: i64 = 1_800_000_000_000;

pub(super) const GIB: i64 = 1 << 30;

pub(super) fn cluster(id: &str, nodes: u32, pending_pods: u32, price_micro_usd: i64) -> Cluster {
    Cluster {
        name: format!("clusters/{id}"),
        nodes,
        pods: 10 * nodes,
        pending_pods,
        price_micro_usd,
        is_connected: true,
        is_synced: true,
        observed_ms: Some(NOW_MS - 2_000),
        agent_version: "0.1.0".to_owned(),
        replica: "replica-0".to_owned(),
        ..Cluster::default()
    }
}

/// A node in service of four cores and 16 GiB, created an hour ago.
pub(super) fn node(name: &str, price_micro_usd: i64, cores_requested: i64, gib_requested: i64) -> Node {
    Node {
        name: name.to_owned(),
        node_claim: "default-x1".to_owned(),
        pool: "default".to_owned(),
        instance_type: "m6i.xlarge".to_owned(),
        zone: "eu-west-1a".to_owned(),
        capacity_type: "on-demand".to_owned(),
        stage: Stage::Ready,
        created_ms: Some(NOW_MS - 3_600_000),
        price_micro_usd,
        pods: 12,
        cpu_requested_millis: cores_requested * 1_000,
        cpu_allocatable_millis: 4_000,
        memory_requested_bytes: gib_requested * GIB,
        memory_allocatable_bytes: 16 * GIB,
        ..Node::default()
    }
}

pub(super) fn pod(name: &str, minutes: i64, state: PodState) -> Pod {
    Pod {
        name: name.to_owned(),
        state,
        created_ms: Some(NOW_MS - minutes * 60_000),
        cpu_millis: 500,
        memory_bytes: 2 * GIB,
        ..Pod::default()
    }
}

/// Two clusters with five nodes, and three pods that wait.
pub(super) fn rows() -> (Vec<Cluster>, Vec<Node>, Vec<Pod>) {
    let clusters = vec![cluster("prod", 4, 3, 800_000), Cluster { is_stale: true, ..cluster("test", 1, 0, 100_000) }];
    let spot = Node {
        zone: "eu-west-1b".to_owned(),
        capacity_type: "spot".to_owned(),
        ..node("clusters/prod/nodes/ip-10-0-0-2.eu-west-1.compute.internal", 100_000, 3, 4)
    };
    let draining = Node {
        stage: Stage::Draining,
        removal_reason: "empty".to_owned(),
        pods: 0,
        ..node("clusters/prod/nodes/ip-10-0-0-3", 200_000, 0, 0)
    };
    let launching = Node {
        stage: Stage::Launching,
        created_ms: Some(NOW_MS - 20_000),
        pods: 1,
        cpu_allocatable_millis: 0,
        memory_allocatable_bytes: 0,
        ..node("clusters/prod/nodes/default-x9", 300_000, 0, 0)
    };
    let foreign = Node {
        node_claim: String::new(),
        pool: String::new(),
        stage: Stage::NotReady,
        ..node("clusters/test/nodes/old", 0, 1, 2)
    };
    let nodes = vec![node("clusters/prod/nodes/ip-10-0-0-1", 200_000, 1, 8), spot, draining, launching, foreign];
    let planned = Pod {
        planned_node: "default-x9".to_owned(),
        ..pod("clusters/prod/namespaces/shop/pods/cart-1", 1, PodState::Planned)
    };
    let homeless = Pod {
        reasons: "Taints: no NodePool is tolerated".to_owned(),
        ..pod("clusters/prod/namespaces/shop/pods/web-1", 90, PodState::Unschedulable)
    };
    let waiting = pod("clusters/prod/namespaces/batch/pods/job-7", 5, PodState::Waiting);
    (clusters, nodes, vec![planned, homeless, waiting])
}

/// The fleet of [`rows`], listed and live, as it is seen two seconds after the last message.
pub(super) fn fleet() -> Top {
    let mut top = Top::new(Kind::Clusters, None, true);
    load(&mut top);
    top
}

pub(super) fn load(top: &mut Top) {
    let (clusters, nodes, pods) = rows();
    let then = NOW_MS - 2_000;
    top.apply(Change::Clusters(Delta::of(clusters)), then);
    top.apply(Change::Nodes(Delta::of(nodes)), then);
    top.apply(Change::Pods(Delta::of(pods)), then);
    for kind in Kind::ALL {
        top.apply(Change::Feed(kind, Feed::Live), then);
    }
    top.apply(Change::Notices(Vec::new()), then);
}

/// The lines of the picture, without spaces at their ends.
pub(super) fn picture_at(top: &mut Top, width: u16, height: u16, now_ms: i64) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| top.draw(frame, now_ms)).unwrap();
    let buffer = terminal.backend().buffer();
    let lines = buffer.content.chunks(usize::from(width).max(1)).map(|cells| {
        let line: String = cells.iter().map(ratatui_core::buffer::Cell::symbol).collect();
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

pub(super) fn picture(top: &mut Top, width: u16, height: u16) -> String {
    picture_at(top, width, height, NOW_MS)
}

/// First cells of the rows of a picture of 80 columns and 24 lines, with the cursor before one.
pub(super) fn names_at(top: &mut Top, now_ms: i64) -> Vec<String> {
    let picture = picture_at(top, 80, 24, now_ms);
    let rows = picture.lines().skip(8).take(14).filter(|line| !line.is_empty());
    rows.map(|line| line.split_whitespace().next().unwrap_or_default().to_owned()).collect()
}

pub(super) fn type_text(top: &mut Top, text: &str) {
    for character in text.chars() {
        top.handle(Key::Char(character), NOW_MS);
    }
}
