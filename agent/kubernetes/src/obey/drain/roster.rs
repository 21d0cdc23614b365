//! The nodes that are drained at a time, and the pods on them.
//!
//! The picture is by pod, and going through it for each drain would cost more the more drains there are: it is gone through once a
//! second for all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent::Seen;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::order::{self, Guest};
use crate::api::Api;
use crate::error::{ApiError, Kind};
use crate::moment::now_ms;
use crate::picture::Picture;
use crate::resource::POD;
use crate::seen::pod;
use crate::seen::shape::Shared;

/// The picture is gone through this often.
const AGE: Duration = Duration::from_millis(900);

/// The nodes that are drained.
#[derive(Debug, Default)]
pub struct Roster(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// How many drains look at each node.
    nodes: BTreeMap<String, usize>,
    looked: Option<Instant>,
    guests: BTreeMap<String, Vec<Guest>>,
}

/// One drain's place among them.
pub(crate) struct Enrolled<'r> {
    roster: &'r Roster,
    node: String,
}

impl Roster {
    /// A drain of `node` begins; it ends with the value that is returned.
    pub(crate) fn enrol(&self, node: &str) -> Enrolled<'_> {
        let mut inner = self.inner();
        *inner.nodes.entry(node.to_owned()).or_default() += 1;
        Enrolled { roster: self, node: node.to_owned() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Enrolled<'_> {
    /// The pods on the node at `now`, as the picture had them within the last second.
    pub(crate) fn guests(&self, picture: &Picture, now: i64) -> Vec<Guest> {
        let mut inner = self.roster.inner();
        let fresh = inner.looked.is_some_and(|looked| looked.elapsed() < AGE);
        if !fresh || !inner.guests.contains_key(&self.node) {
            let nodes: BTreeSet<String> = inner.nodes.keys().cloned().collect();
            inner.guests = picture.guests(&nodes, now);
            inner.looked = Some(Instant::now());
        }
        inner.guests.get(&self.node).cloned().unwrap_or_default()
    }
}

impl Drop for Enrolled<'_> {
    fn drop(&mut self) {
        let mut inner = self.roster.inner();
        if let Some(drains) = inner.nodes.get_mut(&self.node) {
            *drains -= 1;
            if *drains == 0 {
                inner.nodes.remove(&self.node);
                inner.guests.remove(&self.node);
            }
        }
    }
}

#[derive(Debug, Deserialize)]
struct PodList {
    metadata: ListMeta,
    items: Vec<Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ListMeta {
    r#continue: String,
}

/// The pods on `node` as the API server has them.
pub(crate) async fn listed(api: &Api, node: &str) -> Result<Vec<Guest>, ApiError> {
    let mut guests = Vec::new();
    let mut shared = Shared::default();
    let mut next = String::new();
    loop {
        let path = format!("{}?fieldSelector=spec.nodeName%3D{node}&limit=250&continue={next}", POD.all());
        let page: PodList = api.get(&path).await?;
        for item in &page.items {
            let row = pod::read(item.get(), &mut shared).map_err(|error| ApiError {
                kind: Kind::Server,
                ..ApiError::unreachable(format!("read a pod of Node {node}"), error)
            })?;
            if let Seen::Pod { record, shape, volume_claims, .. } = row.seen {
                guests.push(order::guest(&record, &shape, volume_claims.as_ref(), now_ms()));
            }
        }
        next = page.metadata.r#continue;
        if next.is_empty() {
            return Ok(guests);
        }
    }
}
