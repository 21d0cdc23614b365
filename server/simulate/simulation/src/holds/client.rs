//! Clients that hold capacity. What they are told is what the servers are held to.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use cloud::simulated::SeededRng;
use fleetwright_proto::v1;
use fleetwright_rpc::v1::capacity_service_client::CapacityServiceClient;
use fleetwright_rpc::v1::fleet_service_client::FleetServiceClient;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use super::plan::Plan;
use crate::pod_template::{pod_template, pod_template_on};

/// How long a client repeats a request.
const PATIENCE: Duration = Duration::from_secs(120);

const RETRY: Duration = Duration::from_millis(100);

const CALL: Duration = Duration::from_secs(5);

/// How long an uncommitted hold lasts, in seconds.
const TTL_S: i64 = 15;

/// Instance types of four processors, and zones, of holds without an alternative.
const INSTANCE_TYPES: [&str; 6] = ["c5.xlarge", "c6i.xlarge", "m5.xlarge", "m6i.xlarge", "r5.xlarge", "r6i.xlarge"];
const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];

/// What a client does with its hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Script {
    /// Nothing: it expires.
    Forget,
    /// Releases it at once, whatever its state is.
    Release,
    /// Commits it when it is active, and releases it then.
    Use,
    /// Commits it when it is active.
    Keep,
}

/// What became of one hold, as the client was told.
#[derive(Debug)]
pub(super) struct Outcome {
    pub name: String,
    pub pods: i32,
    pub state: v1::HoldState,
    /// Whether the client was told that it is committed.
    pub committed: bool,
    pub ready_ms: Option<u64>,
    pub contradictions: Vec<String>,
}

pub(super) struct Clients {
    run: String,
    servers: Vec<Channel>,
    clusters: u8,
    without_request_ids: bool,
    rng: SeededRng,
    repeated: AtomicUsize,
}

impl Clients {
    pub(super) fn new(run: String, addresses: Vec<String>, plan: &Plan, rng: SeededRng) -> Self {
        let connect = |address: String| {
            let endpoint = Endpoint::from_shared(address).expect("an address of a server is a URL");
            endpoint.timeout(CALL).connect_timeout(CALL).connect_lazy()
        };
        Self {
            run,
            servers: addresses.into_iter().map(connect).collect(),
            clusters: plan.clusters,
            without_request_ids: plan.without_request_ids,
            rng,
            repeated: AtomicUsize::new(0),
        }
    }

    pub(super) fn repeated(&self) -> usize {
        self.repeated.load(Ordering::Relaxed)
    }

    /// Waits until every cluster can be held capacity in.
    pub(super) async fn wait_for_clusters(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let mut fleet = FleetServiceClient::new(self.servers[0].clone());
            let listed = fleet.list_clusters(v1::ListClustersRequest::default()).await;
            let synced = listed.map(|answer| answer.into_inner().clusters.iter().filter(|one| one.synced).count());
            if synced.is_ok_and(|synced| synced >= usize::from(self.clusters)) {
                return Ok(());
            }
            tokio::time::sleep(RETRY).await;
        }
        Err(anyhow!("the clusters were not synced within {} s", PATIENCE.as_secs()))
    }

    /// Waits until a server answers.
    pub(super) async fn wait_for_server(&self, number: usize) -> anyhow::Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let mut fleet = FleetServiceClient::new(self.servers[number].clone());
            if fleet.get_server_info(v1::GetServerInfoRequest::default()).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(RETRY).await;
        }
        Err(anyhow!("server {number} did not answer within {} s after it was started", PATIENCE.as_secs()))
    }

    /// All holds of this run, by name.
    pub(super) async fn list(&self) -> anyhow::Result<BTreeMap<String, v1::Hold>> {
        let prefix = format!("clusters/{}-", self.run);
        let all = list(&self.servers[0]).await.context("cannot list the holds")?;
        Ok(all
            .into_iter()
            .filter(|hold| hold.name.starts_with(&prefix))
            .map(|hold| (hold.name.clone(), hold))
            .collect())
    }

    /// Creates the hold of this number, and runs its script.
    pub(super) async fn hold(&self, number: usize) -> anyhow::Result<Outcome> {
        let rng = self.rng.child_number(number as u64);
        let mut request = self.request(number, &rng);
        if rng.child("limit").value().is_multiple_of(4) {
            let price = self.quoted_price(&request).await?;
            request.hold.iter_mut().for_each(|hold| hold.max_price_micro_usd_per_hour = price);
        }
        let begun = Instant::now();
        let hold = self.create(&request, &rng).await?;
        let mut contradictions = Vec::new();
        if rng.child("again").value().is_multiple_of(4) {
            let again = self.create(&request, &rng.child("again")).await?;
            if again.name != hold.name {
                contradictions.push(format!("{} and {} are of one request", hold.name, again.name));
            }
        }
        let mut outcome = Outcome {
            pods: request.hold.iter().flat_map(|hold| &hold.pod_sets).map(|set| set.count).sum(),
            name: hold.name.clone(),
            state: hold.state(),
            committed: false,
            ready_ms: None,
            contradictions,
        };
        match script(&rng) {
            Script::Forget => outcome.state = self.wait_until(&hold.name, has_ended).await?.state(),
            Script::Release => {
                let wait = rng.child("wait").between((0, 3_000));
                tokio::time::sleep(Duration::from_millis(wait.unsigned_abs())).await;
                outcome.state = self.release(&hold.name).await?.state();
            }
            script @ (Script::Use | Script::Keep) => self.commit(&hold.name, script, begun, &mut outcome).await?,
        }
        Ok(outcome)
    }

    /// Commits the hold when it is active, and releases it if its script is to be used.
    async fn commit(&self, name: &str, script: Script, begun: Instant, outcome: &mut Outcome) -> anyhow::Result<()> {
        let ready = self.wait_until(name, |hold| hold.state() == v1::HoldState::Active || has_ended(hold)).await?;
        outcome.state = ready.state();
        if ready.state() != v1::HoldState::Active {
            return Ok(());
        }
        outcome.ready_ms = Some(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX));
        let committed = self.call(|channel| async move {
            let request = v1::CommitHoldRequest { name: name.to_owned(), ..v1::CommitHoldRequest::default() };
            CapacityServiceClient::new(channel).commit_hold(request).await.map(tonic::Response::into_inner)
        });
        match committed.await? {
            Ok(hold) => {
                outcome.committed = true;
                outcome.state = hold.state();
            }
            // It has expired meanwhile, or lost a machine.
            Err(status) if status.code() == Code::FailedPrecondition => {
                outcome.state = self.wait_until(name, has_ended).await?.state();
                return Ok(());
            }
            Err(status) => return Err(anyhow!("cannot commit {name}: {status}")),
        }
        if script == Script::Use {
            outcome.state = self.release(name).await?.state();
        }
        Ok(())
    }

    /// Price of the nodes for a hold. As a limit it fails holds of which a launch has failed: what is launched in its place
    /// costs more. Zero, which is no limit, if no node has to be launched.
    async fn quoted_price(&self, request: &v1::CreateHoldRequest) -> anyhow::Result<i64> {
        let asked = v1::QuoteClustersRequest {
            pod_sets: request.hold.iter().flat_map(|hold| hold.pod_sets.clone()).collect(),
            clusters: vec![request.parent.clone()],
            ..v1::QuoteClustersRequest::default()
        };
        let begun = Instant::now();
        loop {
            let quoted = self.call(|channel| {
                let asked = asked.clone();
                async move {
                    CapacityServiceClient::new(channel).quote_clusters(asked).await.map(tonic::Response::into_inner)
                }
            });
            match quoted.await? {
                Ok(quoted) => return Ok(quoted.quotes.first().map_or(0, |quote| quote.price_micro_usd_per_hour)),
                // One client may have so many quotes in progress, and all of these are one.
                Err(status) if status.code() == Code::ResourceExhausted && begun.elapsed() <= PATIENCE => {
                    tokio::time::sleep(RETRY).await;
                }
                Err(status) => return Err(anyhow!("cannot quote {}: {status}", request.parent)),
            }
        }
    }

    async fn release(&self, name: &str) -> anyhow::Result<v1::Hold> {
        let released = self.call(|channel| async move {
            let request = v1::ReleaseHoldRequest { name: name.to_owned(), ..v1::ReleaseHoldRequest::default() };
            CapacityServiceClient::new(channel).release_hold(request).await.map(tonic::Response::into_inner)
        });
        released.await?.map_err(|status| anyhow!("cannot release {name}: {status}"))
    }

    /// The request, repeated with its id until a server answers.
    async fn create(&self, request: &v1::CreateHoldRequest, rng: &SeededRng) -> anyhow::Result<v1::Hold> {
        let first = usize::from(rng.child("server").value().is_multiple_of(2));
        let created =
            self.call_from(first, |channel| {
                let request = request.clone();
                async move {
                    CapacityServiceClient::new(channel).create_hold(request).await.map(tonic::Response::into_inner)
                }
            });
        created.await?.map_err(|status| anyhow!("a hold was refused: {status}"))
    }

    async fn wait_until(&self, name: &str, is_done: impl Fn(&v1::Hold) -> bool) -> anyhow::Result<v1::Hold> {
        let begun = Instant::now();
        loop {
            let got = self.call(|channel| async move {
                let request = v1::GetHoldRequest { name: name.to_owned() };
                FleetServiceClient::new(channel).get_hold(request).await.map(tonic::Response::into_inner)
            });
            let hold = got.await?.map_err(|status| anyhow!("cannot get {name}: {status}"))?;
            if is_done(&hold) {
                return Ok(hold);
            }
            if begun.elapsed() > PATIENCE {
                return Err(anyhow!("{name} stayed {:?}: {}", hold.state(), hold.message));
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn call<T, F>(&self, send: impl Fn(Channel) -> F) -> anyhow::Result<Result<T, Status>>
    where
        F: Future<Output = Result<T, Status>>,
    {
        self.call_from(self.repeated() % 2, send).await
    }

    /// Sends a request to one server after the other until one answers: an error that says what is wrong is an answer.
    async fn call_from<T, F>(&self, first: usize, send: impl Fn(Channel) -> F) -> anyhow::Result<Result<T, Status>>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let begun = Instant::now();
        for attempt in 0.. {
            let sent = send(self.servers[(first + attempt) % self.servers.len()].clone()).await;
            match sent {
                Err(status) if is_transient(&status) => {
                    self.repeated.fetch_add(1, Ordering::Relaxed);
                    if begun.elapsed() > PATIENCE {
                        return Err(anyhow!("no server answered within {} s: {status}", PATIENCE.as_secs()));
                    }
                    tokio::time::sleep(RETRY).await;
                }
                answer => return Ok(answer),
            }
        }
        Err(anyhow!("no server was asked"))
    }

    fn request(&self, number: usize, rng: &SeededRng) -> v1::CreateHoldRequest {
        let cluster = rng.child("cluster").value() % u64::from(self.clusters);
        let dedicated = rng.child("kind").value() % 10 < 7;
        v1::CreateHoldRequest {
            parent: format!("clusters/{}-{cluster}", self.run),
            hold: Some(v1::Hold {
                pod_sets: pod_sets(rng),
                kind: if dedicated { v1::HoldKind::Dedicated } else { v1::HoldKind::Shared }.into(),
                ttl: Some(prost_types::Duration { seconds: TTL_S, nanos: 0 }),
                ..v1::Hold::default()
            }),
            request_id: if self.without_request_ids { String::new() } else { format!("{}-{number}", self.run) },
            ..v1::CreateHoldRequest::default()
        }
    }
}

pub(super) async fn list(server: &Channel) -> Result<Vec<v1::Hold>, Status> {
    let mut fleet = FleetServiceClient::new(server.clone());
    let (mut holds, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = v1::ListHoldsRequest {
            parent: "clusters/-".to_owned(),
            page_size: 1_000,
            page_token,
            ..v1::ListHoldsRequest::default()
        };
        let page = fleet.list_holds(request).await?.into_inner();
        holds.extend(page.holds);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(holds);
        }
    }
}

fn script(rng: &SeededRng) -> Script {
    match rng.child("script").value() % 100 {
        0..30 => Script::Forget,
        30..55 => Script::Release,
        55..97 => Script::Use,
        _ => Script::Keep,
    }
}

pub(super) fn has_ended(hold: &v1::Hold) -> bool {
    matches!(hold.state(), v1::HoldState::Released | v1::HoldState::Expired | v1::HoldState::Failed)
}

/// Whether the outcome of the call is unknown, or nothing happened.
fn is_transient(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled | Code::DeadlineExceeded
    )
}

/// The pods of a hold. One in five holds is for a pod on each of two offerings without an alternative: when one of them has no
/// capacity, the hold fails, and the machine of the other one has to go.
fn pod_sets(rng: &SeededRng) -> Vec<v1::PodSet> {
    if !rng.child("offerings").value().is_multiple_of(5) {
        let count = 1 + i32::try_from(rng.child("count").value() % 3).unwrap_or_default();
        return vec![pod_set("workers", count, pod_template("3"))];
    }
    let on_one = |name: &str| {
        let instance_type = one_of(&rng.child(name).child("type"), &INSTANCE_TYPES);
        let zone = one_of(&rng.child(name).child("zone"), &ZONES);
        let labels = [
            ("node.kubernetes.io/instance-type", instance_type),
            ("topology.kubernetes.io/zone", zone),
            ("karpenter.sh/capacity-type", "on-demand"),
        ];
        pod_set(name, 1, pod_template_on("3", &labels))
    };
    vec![on_one("first"), on_one("second")]
}

fn pod_set(name: &str, count: i32, template: prost_types::Struct) -> v1::PodSet {
    v1::PodSet { name: name.to_owned(), namespace: String::new(), count, template: Some(template) }
}

fn one_of<'a>(rng: &SeededRng, all: &[&'a str]) -> &'a str {
    all[usize::try_from(rng.value() % all.len() as u64).unwrap_or_default()]
}
