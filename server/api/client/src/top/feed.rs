//! Lists and watches of the three kinds of rows, as changes in one channel.
//!
//! Each kind has a task: it lists by pages, then watches from where the list began. A watch that ends is resumed; one whose
//! position is lost (`OUT_OF_RANGE`) begins again with a list. All nodes are listed, not those of the view only: the sums of
//! the header need them, and a view of 100,000 nodes then waits for no request.

use std::time::Duration;

use ::top::{Change, Delta, Feed, Kind as RowKind};
use fleetwright_proto::v1;
use futures::StreamExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::{Code, Status};

use super::FleetClient;
use super::messages;
use crate::fleet::kinds::{Changes, Clusters, Kind, Nodes, Pods, Selection};
use crate::remote::rpc_failure;
use api_messages::resource_names as names;
use command::escape::escape_unprintable;
use command::exit::{Failure, one_line};

/// Rows that are asked for at one time, and of one change: a key waits for one change at most.
const PAGE_SIZE: usize = 1_000;

/// Changes that wait. While the view is paused they fill the channel, then the window of the connection, and the server ends
/// the watch when its own bounds are reached: the rows are listed again then.
const WAITING_CHANGES: usize = 16;

/// Delay before a connection is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which the server is asked what does not work.
const NOTICES_INTERVAL: Duration = Duration::from_secs(2);

/// The server sends a message at least every 15 seconds; three are missing.
const SILENCE: Duration = Duration::from_secs(45);

/// What comes from the server.
#[derive(Debug)]
pub(super) enum Event {
    /// For the picture.
    Change(Change),
    /// The server refuses: another try has the same result.
    Failed(Failure),
}

/// The tasks of the three kinds. They end with this value.
pub(super) struct Feeds {
    events: mpsc::Receiver<Event>,
    _tasks: JoinSet<()>,
}

impl Feeds {
    /// Starts to list the fleet, or one cluster.
    pub(super) fn start(client: &FleetClient, cluster: Option<&str>, interval: Duration) -> Self {
        let (sender, events) = mpsc::channel(WAITING_CHANGES);
        let mut tasks = JoinSet::new();
        let parent = names::cluster(cluster.unwrap_or("-"));
        let selection = |filter: String| Selection {
            parent: parent.clone(),
            filter,
            order_by: String::new(),
            min_interval: prost_types::Duration::try_from(interval).ok(),
        };
        let of_cluster = cluster.map_or_else(String::new, |_| format!("name = {parent:?}"));
        let source = |kind, filter| Source {
            client: client.clone(),
            selection: selection(filter),
            kind,
            sender: sender.clone(),
        };
        tasks.spawn(source(RowKind::Clusters, of_cluster).run::<Clusters>(messages::clusters));
        tasks.spawn(source(RowKind::Nodes, String::new()).run::<Nodes>(messages::nodes));
        tasks.spawn(source(RowKind::Pods, String::new()).run::<Pods>(messages::pods));
        tasks.spawn(send_notices(client.clone(), sender.clone()));
        Self { events, _tasks: tasks }
    }

    /// The next event.
    pub(super) async fn next(&mut self) -> Event {
        let lost = || Event::Failed(Failure::internal("every task that reads from the server ended"));
        self.events.recv().await.unwrap_or_else(lost)
    }
}

/// Sends what the server depends on and does not work, again and again. Why no answer comes is said by the lists.
async fn send_notices(mut client: FleetClient, sender: mpsc::Sender<Event>) {
    loop {
        if let Ok(info) = client.get_server_info(v1::GetServerInfoRequest::default()).await {
            let problems = info.into_inner().problems;
            let notices = problems.iter().map(api_messages::notice);
            let notices = notices.map(|notice| escape_unprintable(&one_line(&notice)).into_owned()).collect();
            if sender.send(Event::Change(Change::Notices(notices))).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(NOTICES_INTERVAL).await;
    }
}

/// Why no rows come.
enum Ended {
    /// Nobody receives the changes any more.
    Closed,
    /// A request failed.
    Failed(Status),
}

impl From<Status> for Ended {
    fn from(status: Status) -> Self {
        Self::Failed(status)
    }
}

/// One kind of rows.
struct Source {
    client: FleetClient,
    selection: Selection,
    kind: RowKind,
    sender: mpsc::Sender<Event>,
}

impl Source {
    /// Lists and watches until nobody receives the changes, or the server refuses.
    async fn run<K: Kind>(mut self, change_of: fn(Delta<K::Row>) -> Change) {
        let mut position: Option<String> = None;
        loop {
            let ended = match position.take() {
                None => self.list::<K>(change_of, &mut position).await,
                Some(token) => {
                    position = Some(token);
                    self.watch::<K>(change_of, &mut position).await
                }
            };
            let Err(Ended::Failed(status)) = ended else {
                if ended.is_ok() {
                    continue;
                }
                return;
            };
            match Failing::of(&status) {
                Failing::PositionLost => position = None,
                Failing::Refused => return drop(self.sender.send(Event::Failed(rpc_failure(status))).await),
                Failing::Transient => {
                    let broken = Feed::Broken(reason(&status));
                    if self.send(Change::Feed(self.kind, broken)).await.is_err() {
                        return;
                    }
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
            }
        }
    }

    /// Sends all pages, and then where the watch begins.
    async fn list<K: Kind>(
        &mut self,
        change_of: fn(Delta<K::Row>) -> Change,
        position: &mut Option<String>,
    ) -> Result<(), Ended> {
        self.send(Change::Feed(self.kind, Feed::Listing)).await?;
        let (mut page_token, mut resume_token, mut unreachable) = (String::new(), None, Vec::new());
        loop {
            let size = i32::try_from(PAGE_SIZE).unwrap_or(i32::MAX);
            let page = K::page(&mut self.client, &self.selection, (size, page_token)).await?;
            resume_token.get_or_insert(page.resume_token);
            unreachable.extend(page.unreachable);
            self.send(change_of(Delta::of(page.rows))).await?;
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        self.send(Change::Unreachable(self.kind, unreachable)).await?;
        self.send(Change::Feed(self.kind, Feed::Live)).await?;
        *position = resume_token;
        Ok(())
    }

    /// Sends what changes until the watch ends.
    async fn watch<K: Kind>(
        &mut self,
        change_of: fn(Delta<K::Row>) -> Change,
        position: &mut Option<String>,
    ) -> Result<(), Ended> {
        let token = position.clone().unwrap_or_default();
        let mut changes = K::watch(&mut self.client, &self.selection, token).await?;
        let mut is_live = false;
        loop {
            let message = tokio::time::timeout(SILENCE, changes.next()).await;
            let silent = |_| Status::unavailable(format!("no message for {} s", SILENCE.as_secs()));
            let message =
                message.map_err(silent)?.ok_or_else(|| Status::unavailable("the server ended the watch"))??;
            if !is_live {
                self.send(Change::Feed(self.kind, Feed::Live)).await?;
                is_live = true;
            }
            *position = Some(message.resume_token.clone());
            for delta in parts(message) {
                self.send(change_of(delta)).await?;
            }
        }
    }

    async fn send(&self, change: Change) -> Result<(), Ended> {
        self.sender.send(Event::Change(change)).await.map_err(|_| Ended::Closed)
    }
}

/// What a failed request means.
#[derive(Debug, PartialEq, Eq)]
enum Failing {
    /// The changes since the position are not known any more.
    PositionLost,
    /// Another try has the same result.
    Refused,
    /// The server may answer later.
    Transient,
}

impl Failing {
    fn of(status: &Status) -> Self {
        match status.code() {
            Code::OutOfRange => Self::PositionLost,
            Code::InvalidArgument
            | Code::NotFound
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::FailedPrecondition
            | Code::Unimplemented => Self::Refused,
            _ => Self::Transient,
        }
    }
}

/// Why nothing comes, in one line.
fn reason(status: &Status) -> String {
    let failure = rpc_failure(status.clone());
    escape_unprintable(&one_line(&failure.messages.join("; "))).into_owned()
}

/// A message in parts with a bounded number of rows. What is void comes first.
fn parts<R>(message: Changes<R>) -> Vec<Delta<R>> {
    let Changes { rows, deleted, reset, .. } = message;
    let mut parts = vec![Delta { reset, rows: Vec::new(), deleted }];
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        let some: Vec<R> = rows.by_ref().take(PAGE_SIZE).collect();
        match parts.as_mut_slice() {
            [first] if first.rows.is_empty() => first.rows = some,
            _ => parts.push(Delta::of(some)),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_with_many_rows_is_passed_on_in_parts_and_what_is_void_comes_first() {
        let message = Changes {
            rows: (0..2_001).collect(),
            deleted: vec!["gone".to_owned()],
            resume_token: String::new(),
            reset: vec!["clusters/a".to_owned()],
        };
        let parts = parts(message);
        let sizes: Vec<usize> = parts.iter().map(|part| part.rows.len()).collect();
        assert_eq!(sizes, [1_000, 1_000, 1]);
        assert_eq!((parts[0].reset.len(), parts[0].deleted.len()), (1, 1));
        assert!(parts[1..].iter().all(|part| part.reset.is_empty() && part.deleted.is_empty()));
        assert_eq!(
            parts.into_iter().flat_map(|part| part.rows).collect::<Vec<i32>>(),
            (0..2_001).collect::<Vec<i32>>()
        );
    }

    #[test]
    fn a_heartbeat_is_one_part_without_rows() {
        let heartbeat =
            Changes::<i32> { rows: Vec::new(), deleted: Vec::new(), resume_token: String::new(), reset: Vec::new() };
        assert_eq!(parts(heartbeat), [Delta::of(Vec::new())]);
    }

    #[test]
    fn only_what_another_try_cannot_change_ends_the_command() {
        assert_eq!(Failing::of(&Status::out_of_range("")), Failing::PositionLost);
        assert_eq!(Failing::of(&Status::not_found("no cluster")), Failing::Refused);
        assert_eq!(Failing::of(&Status::permission_denied("")), Failing::Refused);
        for transient in
            [Status::unavailable(""), Status::unknown(""), Status::internal(""), Status::deadline_exceeded("")]
        {
            assert_eq!(Failing::of(&transient), Failing::Transient);
        }
    }
}
