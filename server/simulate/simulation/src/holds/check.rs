//! What must hold: while servers are killed, and at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use cloud::simulated::SeededRng;
use controller::holds::HOLD;
use fleetwright_proto::simulation::v1 as simulation;
use fleetwright_proto::v1;
use model::ClaimName;
use store::clock;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

use super::client::{Clients, Outcome, has_ended, list};
use super::report::Report;
use crate::demo::SimulatedApi;
use crate::fleet::Fleet;
use crate::ledgers;
use crate::simulated_cloud::remote::Client;

/// Interval at which holds are listed.
const INTERVAL: Duration = Duration::from_millis(200);

/// Lists holds all the time, and remembers what it saw.
pub(super) struct Watcher {
    task: JoinHandle<Seen>,
    stop: CancellationToken,
}

#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Alive after their end.
    pub overdue: BTreeSet<String>,
    /// With nodes, which were launched or to be launched.
    pub with_nodes: BTreeSet<String>,
}

impl Watcher {
    pub(super) fn start(addresses: Vec<String>, rng: SeededRng) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let servers: Vec<Channel> = addresses
            .into_iter()
            .filter_map(|address| Endpoint::from_shared(address).ok())
            .map(|endpoint| endpoint.timeout(Duration::from_secs(5)).connect_lazy())
            .collect();
        let task = tokio::spawn(async move {
            let mut seen = Seen::default();
            for round in 0_u64.. {
                if stopped.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_none() {
                    break;
                }
                let server = rng.child_number(round).value() % servers.len() as u64;
                let asked = clock::now().as_millis();
                // A server that was just killed says nothing.
                let Ok(holds) = list(&servers[usize::try_from(server).unwrap_or_default()]).await else { continue };
                let names = |is: &dyn Fn(&v1::Hold) -> bool| {
                    let found = holds.iter().filter(|hold| is(hold));
                    found.map(|hold| hold.name.clone()).collect::<BTreeSet<_>>()
                };
                seen.overdue.extend(names(&|hold| is_overdue(hold, asked)));
                seen.with_nodes.extend(names(&|hold| !hold.nodes.is_empty()));
            }
            seen
        });
        Self { task, stop }
    }

    pub(super) async fn stop(self) -> Seen {
        self.stop.cancel();
        self.task.await.unwrap_or_default()
    }
}

/// Whether the hold was alive at `asked`, in milliseconds since 1970, although it had to be over. The database and this
/// process share the clock of this machine.
fn is_overdue(hold: &v1::Hold, asked: i64) -> bool {
    let ends = hold.expire_time.as_ref().map(|at| at.seconds * 1_000 + i64::from(at.nanos) / 1_000_000);
    !has_ended(hold) && ends.is_some_and(|ends| ends < asked)
}

/// Waits until cloud, clusters and holds agree, within `limit`, and fills in the results.
pub(super) async fn settle(
    report: &mut Report,
    clients: &Clients,
    clusters: &Fleet,
    cloud: &mut Client,
    outcomes: &[Outcome],
    limit: Duration,
    interval: Duration,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + limit;
    count(report, outcomes);
    loop {
        let holds = clients.list().await?;
        let ledger = cloud.read_ledger(simulation::ReadLedgerRequest {}).await?.into_inner();
        compare_holds(report, outcomes, &holds);
        compare_machines(report, &ledger, clusters, outcomes, &holds);
        // A second hold of a request stays one, however long it is waited for.
        if report.is_success() || !report.doubled.is_empty() || Instant::now() > deadline {
            return Ok(());
        }
        tokio::time::sleep(interval).await;
    }
}

fn count(report: &mut Report, outcomes: &[Outcome]) {
    let ended = |state| outcomes.iter().filter(|one| one.state == state).count();
    report.created = outcomes.len();
    report.committed = outcomes.iter().filter(|one| one.committed).count();
    report.released = ended(v1::HoldState::Released);
    report.expired = ended(v1::HoldState::Expired);
    report.failed = ended(v1::HoldState::Failed);
    report.ready_ms = outcomes.iter().filter_map(|one| one.ready_ms).collect();
}

/// Compares what clients were told with what is listed.
fn compare_holds(report: &mut Report, outcomes: &[Outcome], holds: &BTreeMap<String, v1::Hold>) {
    let told: BTreeSet<&String> = outcomes.iter().map(|one| &one.name).collect();
    report.lost = told.iter().filter(|name| !holds.contains_key(**name)).map(ToString::to_string).collect();
    // Every request was answered, so each hold that no answer named is a second one.
    report.doubled = holds.keys().filter(|name| !told.contains(name)).cloned().collect();
    report.contradictions = outcomes.iter().flat_map(|one| one.contradictions.clone()).collect();
    for one in outcomes {
        let Some(hold) = holds.get(&one.name).filter(|hold| hold.state() != one.state) else { continue };
        report.contradictions.push(format!("{} was {:?} and is {:?}", one.name, one.state, hold.state()));
    }
    report.kept = holds.values().filter(|hold| hold.state() == v1::HoldState::Committed).count();
}

/// Compares the machines of clusters and cloud with the holds that are kept.
fn compare_machines(
    report: &mut Report,
    ledger: &simulation::ReadLedgerResponse,
    clusters: &Fleet,
    outcomes: &[Outcome],
    holds: &BTreeMap<String, v1::Hold>,
) {
    let compared = ledgers::compare(ledger, &clusters.claims());
    (report.leaked, report.launched_twice) = (compared.leaked, compared.launched_twice);
    (report.alive, report.launched) = (compared.alive, ledger.entries.len());
    let claims = holds_of_claims(clusters);
    let names: BTreeSet<&str> = claims.keys().map(AsRef::as_ref).collect();
    let kept: Vec<&v1::Hold> = holds.values().filter(|hold| hold.state() == v1::HoldState::Committed).collect();
    let nodes = |hold: &v1::Hold| hold.nodes.iter().map(|node| node.node.clone()).collect::<Vec<String>>();
    let is_there = |hold: &v1::Hold| {
        let booked: i32 = hold.nodes.iter().flat_map(|node| &node.pods).map(|pods| pods.pods).sum();
        let asked = outcomes.iter().find(|one| one.name == hold.name).map_or(i32::MAX, |one| one.pods);
        let own = |node: &String| {
            let of = claims.get(node.as_str());
            let id = hold.name.rsplit('/').next();
            names.contains(node.as_str()) && (!hold.guaranteed || of.is_some_and(|of| of.as_deref() == id))
        };
        booked == asked && nodes(hold).iter().all(own)
    };
    report.without_room = kept.iter().filter(|hold| !is_there(hold)).map(|hold| hold.name.clone()).collect();
    let needed: BTreeSet<String> = kept.iter().flat_map(|hold| nodes(hold)).collect();
    report.left_over = names.iter().filter(|name| !needed.contains(**name)).map(ToString::to_string).collect();
}

/// Names of all NodeClaims, with the hold that each was launched for.
fn holds_of_claims(clusters: &Fleet) -> BTreeMap<ClaimName, Option<String>> {
    let claim = |claim: &cluster::ClaimRecord| (claim.name.clone(), claim.labels.get(HOLD).map(ToString::to_string));
    let of_one = |api: &SimulatedApi| api.with(|cluster| cluster.claims().map(claim).collect::<Vec<_>>());
    clusters.clusters.iter().flat_map(|(api, _)| of_one(api)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(state: v1::HoldState, expires_ms: Option<i64>) -> v1::Hold {
        let at = |ms: i64| prost_types::Timestamp {
            seconds: ms / 1_000,
            nanos: i32::try_from(ms % 1_000).unwrap() * 1_000_000,
        };
        v1::Hold {
            name: "clusters/c/holds/h".to_owned(),
            state: state.into(),
            expire_time: expires_ms.map(at),
            ..Default::default()
        }
    }

    fn outcome(name: &str, state: v1::HoldState) -> Outcome {
        let (committed, ready_ms, contradictions) = (false, None, Vec::new());
        Outcome { name: name.to_owned(), pods: 1, state, committed, ready_ms, contradictions }
    }

    #[test]
    fn a_hold_that_lives_past_its_end_is_overdue() {
        assert!(is_overdue(&hold(v1::HoldState::Active, Some(1_500)), 1_501));
        assert!(!is_overdue(&hold(v1::HoldState::Active, Some(1_500)), 1_500));
        assert!(!is_overdue(&hold(v1::HoldState::Expired, Some(1_500)), 9_000));
        assert!(!is_overdue(&hold(v1::HoldState::Committed, None), 9_000));
    }

    #[test]
    fn holds_that_are_lost_doubled_or_another_than_told_are_found() {
        let outcomes = [outcome("a", v1::HoldState::Released), outcome("b", v1::HoldState::Released)];
        let listed = |names: &[&str]| {
            names
                .iter()
                .map(|name| ((*name).to_owned(), hold(v1::HoldState::Released, None)))
                .collect::<BTreeMap<_, _>>()
        };
        let compared = |holds: &BTreeMap<String, v1::Hold>| {
            let mut report = Report::default();
            compare_holds(&mut report, &outcomes, holds);
            (report.lost, report.doubled, report.contradictions.len())
        };
        assert_eq!(compared(&listed(&["a", "b"])), (vec![], vec![], 0));
        assert_eq!(compared(&listed(&["a"])), (vec!["b".to_owned()], vec![], 0));
        assert_eq!(compared(&listed(&["a", "b", "c"])), (vec![], vec!["c".to_owned()], 0));
        let mut alive = listed(&["a", "b"]);
        alive.insert("a".to_owned(), hold(v1::HoldState::Active, Some(1)));
        assert_eq!(compared(&alive), (vec![], vec![], 1));
    }
}
