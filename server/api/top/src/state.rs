//! The state of the screen: rows, views, and what a change does to them.

mod arrange;
mod keys;

use std::collections::BTreeSet;

use crate::change::{Change, Delta, Feed, Kind};
use crate::column::Context;
use crate::columns::{clusters, nodes, pods};
use crate::pane::Pane;
use crate::row::{Cluster, Node, Pod, Row, id};
use crate::schemas;
use crate::sums::FleetSums;
use crate::table::Table;
use crate::view::View;

/// How long after the selection was moved the order of the rows is kept, in milliseconds.
pub const HOLD_MS: i64 = 3_000;

/// Where the rows of a kind come from, and since when they are as they are.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) feed: Feed,
    /// When the last message came; `None` before the first one.
    pub(crate) received_ms: Option<i64>,
    /// Ids of clusters whose rows are missing.
    pub(crate) unreachable: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Browse,
    Filter,
    Help,
}

/// The fleet, and what of it the terminal shows.
pub struct Top {
    pub(crate) clusters: Pane<Cluster>,
    pub(crate) nodes: Pane<Node>,
    pub(crate) pods: Pane<Pod>,
    pub(crate) sums: FleetSums,
    sources: [Source; 3],
    /// What the server depends on and does not work; `None` before it has said so.
    pub(crate) notices: Option<Vec<String>>,
    /// From the first view to the one that is shown. Never empty.
    views: Vec<View>,
    mode: Mode,
    is_paused: bool,
    is_coloured: bool,
    /// The order of the rows is kept until then.
    hold_until_ms: i64,
    /// The rows must be arranged again although their order is kept.
    must_arrange: bool,
    /// Rows on the screen in the last picture.
    height: usize,
}

impl std::fmt::Debug for Top {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Top").field("views", &self.views).field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl Top {
    /// Without rows. The first view has rows of `kind`, of one cluster only if one is named. Without `is_coloured` no picture
    /// has a colour.
    #[must_use]
    pub fn new(kind: Kind, cluster: Option<&str>, is_coloured: bool) -> Self {
        let cluster = cluster.filter(|_| kind != Kind::Clusters).map(str::to_owned);
        let source = || Source { feed: Feed::Listing, received_ms: None, unreachable: BTreeSet::new() };
        Self {
            clusters: Pane::new(clusters::COLUMNS, clusters::WASTE, schemas::clusters()),
            nodes: Pane::new(nodes::COLUMNS, nodes::WASTE, schemas::nodes()),
            pods: Pane::new(pods::COLUMNS, pods::AGE, schemas::pods()),
            sums: FleetSums::default(),
            sources: Kind::ALL.map(|_| source()),
            notices: None,
            views: vec![View::of(kind, cluster)],
            mode: Mode::Browse,
            is_paused: false,
            is_coloured,
            hold_until_ms: 0,
            must_arrange: true,
            height: 1,
        }
    }

    /// Whether changes wait: the caller passes none to [`Top::apply`] until the operator continues.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Whether the lists of all kinds are complete, and the server has said what does not work.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.notices.is_some() && self.sources.iter().all(|source| source.feed == Feed::Live)
    }

    /// Applies what the API sent at this time, in milliseconds since 1970.
    pub fn apply(&mut self, change: Change, now_ms: i64) {
        match change {
            Change::Clusters(delta) => {
                self.source_mut(Kind::Clusters).received_ms = Some(now_ms);
                let table = self.clusters.table_mut();
                change_rows(table, Delta { reset: Vec::new(), ..delta }, "", |_, _| {});
            }
            Change::Nodes(delta) => {
                self.receive(Kind::Nodes, &delta, now_ms);
                let sums = &mut self.sums;
                change_rows(self.nodes.table_mut(), delta, "nodes", |is_added, node| {
                    if is_added { sums.add(node) } else { sums.remove(node) }
                });
                // What a cluster requests and wastes is a column of clusters.
                let _order = self.clusters.table_mut();
            }
            Change::Pods(delta) => {
                self.receive(Kind::Pods, &delta, now_ms);
                change_rows(self.pods.table_mut(), delta, "namespaces", |_, _| {});
            }
            Change::Notices(notices) => self.notices = Some(notices),
            Change::Feed(kind, feed) => self.set_feed(kind, feed, now_ms),
            Change::Unreachable(kind, names) => {
                let ids = names.iter().map(|name| id(name, 0).to_owned());
                self.source_mut(kind).unreachable = ids.collect();
            }
        }
    }

    /// A cluster whose rows follow anew is reachable.
    fn receive<R>(&mut self, kind: Kind, delta: &Delta<R>, now_ms: i64) {
        let source = self.source_mut(kind);
        source.received_ms = Some(now_ms);
        source.unreachable.retain(|cluster| !delta.reset.iter().any(|name| id(name, 0) == cluster));
    }

    fn set_feed(&mut self, kind: Kind, feed: Feed, now_ms: i64) {
        let is_complete = feed == Feed::Live && self.source(kind).feed == Feed::Listing;
        match (kind, &feed, is_complete) {
            (Kind::Clusters, Feed::Listing, _) => self.clusters.table_mut().begin_list(),
            (Kind::Nodes, Feed::Listing, _) => self.nodes.table_mut().begin_list(),
            (Kind::Pods, Feed::Listing, _) => self.pods.table_mut().begin_list(),
            (Kind::Clusters, _, true) => {
                let deleted = self.clusters.table().unlisted();
                self.apply(Change::Clusters(Delta { reset: Vec::new(), rows: Vec::new(), deleted }), now_ms);
            }
            (Kind::Nodes, _, true) => {
                let deleted = self.nodes.table().unlisted();
                self.apply(Change::Nodes(Delta { reset: Vec::new(), rows: Vec::new(), deleted }), now_ms);
            }
            (Kind::Pods, _, true) => {
                let deleted = self.pods.table().unlisted();
                self.apply(Change::Pods(Delta { reset: Vec::new(), rows: Vec::new(), deleted }), now_ms);
            }
            _ => {}
        }
        self.source_mut(kind).feed = feed;
    }

    pub(crate) fn source(&self, kind: Kind) -> &Source {
        &self.sources[kind as usize]
    }

    fn source_mut(&mut self, kind: Kind) -> &mut Source {
        &mut self.sources[kind as usize]
    }

    pub(crate) fn view(&self) -> &View {
        // `back` keeps the first view.
        &self.views[self.views.len() - 1]
    }

    fn view_mut(&mut self) -> &mut View {
        let last = self.views.len() - 1;
        &mut self.views[last]
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) fn is_coloured(&self) -> bool {
        self.is_coloured
    }

    /// Whether the order of the rows is kept now.
    pub(crate) fn is_held(&self, now_ms: i64) -> bool {
        now_ms < self.hold_until_ms
    }

    pub(crate) fn context(&self, now_ms: i64) -> Context<'_> {
        let without_nodes = &self.sources[Kind::Nodes as usize].unreachable;
        Context { now_ms, sums: &self.sums, without_nodes, is_fleet: self.view().cluster.is_none() }
    }
}

/// Changes rows of a collection of clusters; `observe` is passed each row that comes (`true`) or goes.
fn change_rows<R: Row>(table: &mut Table<R>, delta: Delta<R>, collection: &str, mut observe: impl FnMut(bool, &R)) {
    let Delta { reset, rows, deleted } = delta;
    let void = reset.iter().flat_map(|cluster| table.names(&format!("{cluster}/{collection}/"))).collect::<Vec<_>>();
    for name in void.iter().chain(&deleted) {
        if let Some(row) = table.remove(name) {
            observe(false, row);
        }
    }
    for row in rows {
        observe(true, &row);
        if let Some(old) = table.upsert(row) {
            observe(false, &old);
        }
    }
}
