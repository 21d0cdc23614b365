//! Messages of watches of clusters that several clients get: made once, and then equal to the byte, so that their JSON is made
//! once too.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use auth::cluster_access::ClusterAccess;
use fleetwright_proto::v1;

use super::change_log::TooOld;

/// Messages that are kept: clients get theirs within milliseconds of each other.
const MESSAGES: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) filter: String,
    /// Only the clusters of this replica.
    pub(super) part: bool,
    /// Clusters that the clients are confined to.
    pub(super) clusters: ClusterAccess,
    /// Positions before the first change and after the last one.
    pub(super) changes: Range<u64>,
}

#[derive(Default)]
pub(crate) struct SharedMessages {
    messages: Mutex<VecDeque<(Contents, Arc<v1::WatchClustersResponse>)>>,
}

impl SharedMessages {
    /// The message with these contents, which `make` makes if no client got it yet.
    ///
    /// # Errors
    /// That of `make`.
    pub(super) fn get_or_make(
        &self,
        contents: Contents,
        make: impl FnOnce(Range<u64>) -> Result<v1::WatchClustersResponse, TooOld>,
    ) -> Result<Arc<v1::WatchClustersResponse>, TooOld> {
        // Held while the message is made: others that wait for the same one would make it too.
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, message)) = messages.iter().find(|(known, _)| *known == contents) {
            return Ok(Arc::clone(message));
        }
        let message = Arc::new(make(contents.changes.clone())?);
        if messages.len() == MESSAGES {
            messages.pop_front();
        }
        messages.push_back((contents, Arc::clone(&message)));
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_made_once_for_equal_contents_alone() {
        let shared = SharedMessages::default();
        let made = std::cell::Cell::new(0);
        let get = |filter: &str, part, changes| {
            let contents = Contents { filter: filter.to_owned(), part, clusters: ClusterAccess::all(), changes };
            let message = shared.get_or_make(contents, |changes| {
                made.set(made.get() + 1);
                Ok(v1::WatchClustersResponse { resume_token: changes.end.to_string(), ..Default::default() })
            });
            message.map(|message| message.resume_token.clone())
        };
        for _ in 0..3 {
            assert_eq!(get("", false, 1..5), Ok("5".to_owned()));
        }
        assert_eq!(made.get(), 1);
        assert_eq!(get("connected = true", false, 1..5), Ok("5".to_owned()));
        assert_eq!(get("", true, 1..5), Ok("5".to_owned()));
        assert_eq!(get("", false, 1..6), Ok("6".to_owned()));
        assert_eq!(get("", false, 2..6), Ok("6".to_owned()));
        assert_eq!(made.get(), 5);
    }
}
