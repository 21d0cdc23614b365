//! The latest changes of one kind of resource, from which watches are served. A watch keeps no state in the server but its
//! position here.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::ClusterName;
use tokio::sync::watch;

use api_messages::resource::Resource;

/// Changes that are kept. A watch that begins before them has to list again.
const CAPACITY: usize = 65_536;

#[derive(Debug)]
pub(crate) enum Change<M> {
    /// New or changed.
    Set {
        /// As it is now.
        row: Arc<M>,
        /// As it was before; `None` if it is new.
        before: Option<Arc<M>>,
    },
    /// Gone. As it was last.
    Deleted(Arc<M>),
    /// This replica decides for the cluster from now on: what was said about it before is void, and what exists follows.
    Reset,
}

impl<M> Clone for Change<M> {
    fn clone(&self) -> Self {
        match self {
            Self::Set { row, before } => Self::Set { row: Arc::clone(row), before: before.clone() },
            Self::Deleted(row) => Self::Deleted(Arc::clone(row)),
            Self::Reset => Self::Reset,
        }
    }
}

/// A change, with the cluster of the resource.
pub(crate) type ClusterChange<M> = (ClusterName, Change<M>);

/// The position is older than the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooOld;

struct Entries<M> {
    /// Position after the last entry.
    end: u64,
    /// The latest tick in which a watch read the log, and the end that the first of them saw.
    tick: (u64, u64),
    entries: VecDeque<ClusterChange<M>>,
}

/// The log. Readers wait by [`ChangeLog::subscribe`].
pub(crate) struct ChangeLog<M> {
    entries: Mutex<Entries<M>>,
    end: watch::Sender<u64>,
    capacity: usize,
}

impl<M> Default for ChangeLog<M> {
    fn default() -> Self {
        Self::with_capacity(CAPACITY)
    }
}

impl<M> ChangeLog<M> {
    fn with_capacity(capacity: usize) -> Self {
        let entries = Entries { end: 0, tick: (0, 0), entries: VecDeque::new() };
        Self { entries: Mutex::new(entries), end: watch::channel(0).0, capacity }
    }

    fn lock(&self) -> MutexGuard<'_, Entries<M>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn push(&self, cluster: &ClusterName, changes: impl IntoIterator<Item = Change<M>>) {
        let mut log = self.lock();
        let begin = log.end;
        for change in changes {
            log.entries.push_back((cluster.clone(), change));
            log.end += 1;
        }
        while log.entries.len() > self.capacity {
            log.entries.pop_front();
        }
        if log.end > begin {
            self.end.send_replace(log.end);
        }
    }

    /// Position after the last change.
    pub fn end(&self) -> u64 {
        self.lock().end
    }

    /// Position after the last change that the first reader of `tick` saw. Watches that read in one tick thus say the same.
    pub(crate) fn end_at(&self, tick: u64) -> u64 {
        let mut log = self.lock();
        if log.tick.0 < tick {
            log.tick = (tick, log.end);
        }
        log.tick.1
    }

    /// Receives [`ChangeLog::end`] whenever it grows.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.end.subscribe()
    }

    /// Changes between two positions, of `only` if that is given.
    ///
    /// # Errors
    /// When some of them are not known any more, or a position is none of this log.
    pub fn between(&self, positions: Range<u64>, only: Option<&ClusterName>) -> Result<Vec<ClusterChange<M>>, TooOld> {
        let log = self.lock();
        let index = |position: u64| {
            let missing = usize::try_from(log.end.checked_sub(position)?).unwrap_or(usize::MAX);
            log.entries.len().checked_sub(missing)
        };
        let (begin, end) = (index(positions.start).ok_or(TooOld)?, index(positions.end).ok_or(TooOld)?);
        let changes = log.entries.range(begin..end.max(begin));
        Ok(changes.filter(|(cluster, _)| only.is_none_or(|only| only == cluster)).cloned().collect())
    }
}

/// What a watch says of some changes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Coalesced<M> {
    pub(crate) reset: Vec<ClusterName>,
    pub rows: Vec<Arc<M>>,
    pub deleted: Vec<String>,
}

/// The last state of each resource in `changes` that `selects` selects; those that it selected before, and does not any
/// more, are deleted.
pub(crate) fn coalesce<M: Resource>(changes: Vec<ClusterChange<M>>, selects: impl Fn(&M) -> bool) -> Coalesced<M> {
    struct Net<M> {
        first: Option<Arc<M>>,
        last: Option<Arc<M>>,
    }
    let mut reset: Vec<ClusterName> = Vec::new();
    let mut nets: BTreeMap<(ClusterName, String), Net<M>> = BTreeMap::new();
    for (cluster, change) in changes {
        let (name, before, now) = match change {
            Change::Set { row, before } => (row.name().to_owned(), before, Some(row)),
            Change::Deleted(row) => (row.name().to_owned(), Some(row), None),
            Change::Reset => {
                nets.retain(|(of, _), _| *of != cluster);
                if !reset.contains(&cluster) {
                    reset.push(cluster);
                }
                continue;
            }
        };
        nets.entry((cluster, name)).or_insert(Net { first: before, last: None }).last = now;
    }
    let mut rows = Vec::new();
    let mut deleted = Vec::new();
    for ((_, name), Net { first, last }) in nets {
        match last.filter(|row| selects(row)) {
            Some(row) => rows.push(row),
            None if first.is_some_and(|row| selects(&row)) => deleted.push(name),
            None => {}
        }
    }
    Coalesced { reset, rows, deleted }
}

#[cfg(test)]
mod tests;
