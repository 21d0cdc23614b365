//! The server: sockets, the control loop between them, and an orderly end.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use cloud::provider::CloudProvider;
use cloud::simulated::ClockedCloud;
use engine::control::{self, ClassFacts, GarbageCollectionSettings, RegionController};
use engine::decide::FailedChecks;
use engine::input::{PlanningInput, Policy};
use engine::plan::{Plan, PlanReport};
use engine::schedule::CompileCache;
use fleetwright_proto::DESCRIPTOR_SET;
use fleetwright_proto::v1::agent_service_server::AgentServiceServer;
use fleetwright_proto::v1::fleet_service_server::FleetServiceServer;
use manifests::Source;
use tokio::net::TcpListener;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::config::{CloudConfig, Config, ControlConfig, LeaseConfig, Provider};
use crate::control_loop::{ControlLoop, Heartbeat, Latencies, Place};
use crate::fleet::Fleet;
use crate::fleet::news::{self, Topic};
use crate::replicas::{self, Replicas};
use crate::session::{self, Ledger, Sessions};
use crate::store::lease::Scope;
use crate::store::log::Retention;
use crate::store::own::OwnServer;
use crate::store::replicas::ReplicaRow;
use crate::store::{Store, housekeeping, opening};
use crate::trust::book::Book;
use crate::trust::connections::ConnectionLimits;
use crate::trust::gate::{self, GateLayer};
use crate::trust::tls::{Certificates, Incoming};
use crate::web::{Pages, Shown};
use crate::{clock, measure, pools, views, web};

/// Events of sessions that wait for the control loop; more of them hold the agents up.
const EVENTS_WAITING: usize = 1024;

/// Threads that answer HTTP: two, so that a page that is being written does not keep a health check waiting.
const PAGE_THREADS: usize = 2;

/// Everything that a server is made of beside its sockets.
pub(crate) struct Parts<C = ClockedCloud> {
    /// Where to listen.
    pub(crate) grpc: SocketAddr,
    /// Where to listen.
    pub(crate) http: SocketAddr,
    /// Who is let in.
    pub(crate) book: Arc<Book>,
    /// What connections are encrypted by.
    pub(crate) certificates: Option<Arc<Certificates>>,
    /// What survives.
    pub(crate) store: Arc<dyn Store>,
    /// The PostgreSQL below it, when it is this server's own.
    pub(crate) own: Option<OwnServer>,
    /// How long the store keeps things.
    pub(crate) retention: Retention,
    /// Where machines come from.
    pub(crate) cloud: Arc<C>,
    /// Who decides.
    pub(crate) settings: control::Settings,
    /// Ownership of clusters.
    pub(crate) lease: LeaseConfig,
    /// What agents may make this server remember.
    pub(crate) ledger: Ledger,
    /// The account's region that machines are bought in, as replicas lease it.
    pub(crate) scope: Scope,
    /// The region's name.
    pub(crate) region: String,
    /// Machine types in place of the built-in ones.
    pub(crate) catalogue: Option<Source>,
    /// Digests of the settings that all replicas of one database should share.
    pub(crate) shared: BTreeMap<String, String>,
}

/// A server that runs.
pub(crate) struct Server {
    /// Where agents connect.
    pub(crate) grpc: SocketAddr,
    /// Where the page is.
    pub(crate) http: SocketAddr,
    sessions: Sessions,
    /// Ends the deciding, and tells that it has ended.
    deciding: (CancellationToken, CancellationToken),
    stop: CancellationToken,
    tasks: JoinSet<anyhow::Result<()>>,
    /// Pages and health are answered by threads of their own, which no cluster's work keeps busy.
    _pages: PageThreads,
    own: Option<OwnServer>,
}

/// Runs the server that `starting` brings up until the process is asked to stop, and lets its agents go for `grace` then.
///
/// # Errors
/// What could not be opened, or what broke.
pub(crate) async fn until_stopped(
    starting: impl Future<Output = anyhow::Result<Server>>,
    grace: Duration,
) -> anyhow::Result<()> {
    let stop = agent::asked_to_stop();
    tokio::pin!(stop);
    let mut server = tokio::select! {
        started = starting => started?,
        () = &mut stop => return Ok(()),
    };
    info!("agents connect to grpc://{}; live page at http://{}/", server.grpc, server.http);
    let ended = tokio::select! {
        () = &mut stop => Ok(()),
        ended = server.broken() => ended,
    };
    info!("stopping");
    server.stop(grace).await;
    ended
}

/// A server by `config` that buys from `cloud`.
///
/// # Errors
/// What could not be opened.
pub(crate) async fn start<C: CloudProvider + 'static>(
    config: Config,
    catalogue: Option<Source>,
    cloud: C,
) -> anyhow::Result<Server> {
    Server::start(parts(config, catalogue, cloud).await?).await
}

async fn parts<C>(config: Config, catalogue: Option<Source>, cloud: C) -> anyhow::Result<Parts<C>> {
    let (store, own) = opening::open(&config).await?;
    let certificates = config.listen.tls.map(Certificates::read).transpose().map_err(|why| anyhow!(why))?;
    let certificates = certificates.map(Arc::new);
    let book = config.listen.trust.map_or_else(|| Ok(Book::open()), Book::read).map_err(|why| anyhow!(why))?;
    Ok(Parts {
        grpc: config.listen.grpc,
        http: config.listen.http,
        book: Arc::new(book.with_authorities(certificates.clone())),
        certificates,
        store,
        own,
        retention: Retention {
            log: config.store.keep_log,
            ended: config.store.keep_ended,
            clusters: config.store.keep_clusters,
        },
        cloud: Arc::new(cloud),
        settings: control::Settings {
            policy: Policy {
                preferences: config.control.preferences,
                min_values: config.control.min_values,
                step_limit: config.control.plan_steps,
                preferred_terms: config.control.preferred_terms,
                ..policy()
            },
            batch_idle_ms: milliseconds(config.control.batch_idle),
            batch_max_ms: milliseconds(config.control.batch_max),
            plan_pods: usize::try_from(config.control.plan_pods).unwrap_or(usize::MAX),
            open_together_ms: milliseconds(config.control.open_together),
            rails: config.rails,
            collect: GarbageCollectionSettings {
                after_ms: collect_after(&config.control),
                ..GarbageCollectionSettings::default()
            },
            hold_after_foreign_scale_up_ms: milliseconds(config.control.hold_after_foreign_scale_up),
            class_facts: match config.cloud.provider {
                Provider::Simulated => ClassFacts::Simulated,
                Provider::Ec2 => ClassFacts::Unresolved,
            },
            ..settings()
        },
        scope: region_of(&config.cloud, &config.lease),
        lease: config.lease,
        ledger: config.ledger,
        region: config.cloud.region,
        catalogue,
        shared: config.shared,
    })
}

/// What replicas that buy from one cloud share. A simulated cloud that runs in this process sells to nobody else.
fn region_of(cloud: &CloudConfig, lease: &LeaseConfig) -> Scope {
    let alone = cloud.provider == Provider::Simulated && cloud.address.is_none();
    let account = if alone { &lease.owner } else { &cloud.account };
    Scope::Region { account: account.clone(), region: cloud.region.clone() }
}

/// What every controller of this program has in common.
pub(crate) fn settings() -> control::Settings {
    let now = clock::now().0.unsigned_abs();
    // Every state is made with keys of its own from the system's source of chance.
    let chance = RandomState::new().hash_one(now);
    control::Settings {
        policy: policy(),
        // A process makes fewer than 4096 numbers a millisecond, so numbers grow from process to process; two that start in
        // the same millisecond begin apart.
        first_number: now.saturating_mul(4096) | (chance & 4095),
        identity: chance,
        ..control::Settings::default()
    }
}

pub(crate) fn policy() -> Policy {
    Policy { well_known_labels: manifests::karpenter::well_known_labels(), ..Policy::default() }
}

/// How long something must be odd before it is garbage; `None` when nothing is to be collected.
fn collect_after(config: &ControlConfig) -> Option<i64> {
    Some(milliseconds(config.collect_after)).filter(|after| *after > 0)
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Logs and counts packings that failed their own check: faults of the scheduler that somebody should hear of.
fn note_failed_checks(failed: &FailedChecks) {
    let Some(first) = failed.violations.first() else { return };
    measure::PLANS_FAILING_CHECK.add(u64::from(failed.count));
    warn!(
        packings = failed.count,
        pods_left_out = failed.left_out.len(),
        violation = %first,
        "a packing failed its own check"
    );
}

/// The planner of the control loop: the one of `fleetwright plan`.
pub(crate) fn plan(input: &PlanningInput, memo: &mut CompileCache) -> Result<(Plan, PlanReport), String> {
    match engine::decide::plan_with(input, memo) {
        Ok(decision) => {
            note_failed_checks(&decision.failed_checks);
            Ok((decision.plan, decision.report))
        }
        Err(violations) => {
            let violations: Vec<String> = violations.iter().map(ToString::to_string).collect();
            Err(format!("the plan failed its own check: {}", violations.join("; ")))
        }
    }
}

impl Server {
    /// Opens the sockets and starts every task.
    ///
    /// # Errors
    /// The address that could not be listened on.
    pub(crate) async fn start<C: CloudProvider + 'static>(parts: Parts<C>) -> anyhow::Result<Self> {
        let grpc_listener = listen(parts.grpc).await?;
        let http_listener = listen(parts.http).await?;
        let (grpc, http) = (grpc_listener.local_addr()?, http_listener.local_addr()?);
        let [agents, readers] = ConnectionLimits::of_this_process();
        let grpc_incoming = Incoming::new(grpc_listener, parts.certificates.clone(), agents);
        let (publisher, views) = views::channel();
        let (events, heard) = mpsc::channel(EVENTS_WAITING);
        let read_pools = pools::reader(parts.region, parts.catalogue);
        // Before any agent can be heard, the control loop knows what is frozen.
        let frozen = news::read_freezes(&*parts.store).await?;
        events.send(frozen).await.context("the control loop does not listen")?;
        let session_settings = session::Settings { ledger: parts.ledger, ..session::Settings::default() };
        let sessions = Sessions::new(session_settings, read_pools, events.clone(), Arc::clone(&parts.book));
        let fleet = Fleet::new(views.clone(), Arc::clone(&parts.store));
        let stop = CancellationToken::new();
        let deciding = (CancellationToken::new(), CancellationToken::new());
        // Twice in the time after which something odd is garbage, so that it is seen twice by then.
        let listing = parts.settings.collect.after_ms.map(|after| Duration::from_millis(after.unsigned_abs() / 2));
        let latencies = Arc::new(Latencies::default());
        let heartbeat = Arc::new(Heartbeat::default());
        let region = parts.scope.key();
        let owner = parts.lease.owner.clone();
        let instance = format!("{owner}/{:x}", parts.settings.identity);
        let replica = ReplicaRow { instance, owner, settings: parts.shared };
        let replicas = Arc::new(Replicas::default());
        let control = ControlLoop {
            controller: RegionController::new(parts.settings),
            planner: plan,
            place: Place::Apart,
            sessions: sessions.clone(),
            store: Arc::clone(&parts.store),
            cloud: parts.cloud,
            lease: parts.lease,
            region: parts.scope,
            publisher,
            listing,
            latencies: Arc::clone(&latencies),
            heartbeat: Arc::clone(&heartbeat),
        };
        let mut tasks = JoinSet::new();
        let (stop_deciding, decided) = deciding.clone();
        let (runtime, (tell, told)) = (Handle::current(), oneshot::channel());
        // The loop's long steps would keep a worker of the runtime, and what that worker drives, from going on.
        std::thread::Builder::new().name("decisions".to_owned()).spawn(move || {
            let _ended = decided.drop_guard();
            // Nobody listens once the server has been dropped.
            let _heard = tell.send(runtime.block_on(control.run(heard, stop_deciding)));
        })?;
        tasks.spawn(async move { told.await.context("the control loop panicked")? });
        let offerings = Topic::Offerings { region };
        for topic in [Topic::Freezes, offerings, Topic::Releases { known: None }, Topic::Confirmations { known: None }]
        {
            tasks.spawn(news::follow(topic, Arc::clone(&parts.store), events.clone(), stop.clone()));
        }
        drop(events);
        tasks.spawn(replicas::run(Arc::clone(&parts.store), replica, Arc::clone(&replicas), stop.clone()));
        let first = housekeeping::first_wait(RandomState::new().hash_one(std::process::id()));
        tasks.spawn(housekeeping::run(Arc::clone(&parts.store), parts.retention, first, stop.clone()));
        tasks.spawn(Arc::clone(&parts.book).follow(stop.clone()));
        tasks.spawn(serve_grpc(grpc_incoming, sessions.clone(), fleet, Arc::clone(&parts.book), stop.clone()));
        let pages = PageThreads::start()?;
        let shown = Pages { views, store: parts.store, latencies, heartbeat, replicas };
        let listener = (http_listener.into_std()?, readers);
        let serving = pages
            .0
            .as_ref()
            .map(|pages| pages.spawn(serve_http(listener, parts.certificates, shown, parts.book, stop.clone())));
        tasks.spawn(async move { serving.context("no threads for HTTP")?.await.context("the HTTP server failed")? });
        Ok(Self { grpc, http, sessions, deciding, stop, tasks, _pages: pages, own: parts.own })
    }

    /// Completes when a task ends that should not have.
    ///
    /// # Errors
    /// Always: what broke.
    pub(crate) async fn broken(&mut self) -> anyhow::Result<()> {
        let ended = tokio::select! {
            ended = self.tasks.join_next() => ended,
            fault = self.sessions.broken() => return Err(anyhow!(fault)),
        };
        match ended {
            Some(Ok(Err(error))) => Err(error),
            Some(Err(fault)) => Err(anyhow!("a task of the server failed: {fault}")),
            Some(Ok(Ok(()))) | None => Err(anyhow!("a task of the server ended by itself")),
        }
    }

    /// Ends everything: the loop first, which gives its leases back, then sessions (agents go to whoever
    /// takes the leases), then connections, for at most `grace`.
    pub(crate) async fn stop(mut self, grace: Duration) {
        let (stop_deciding, decided) = &self.deciding;
        stop_deciding.cancel();
        if tokio::time::timeout(grace, decided.cancelled()).await.is_err() {
            warn!("the control loop did not end; its leases run out by themselves");
        }
        self.stop.cancel();
        let ending = async {
            self.sessions.stop().await;
            while self.tasks.join_next().await.is_some() {}
        };
        if tokio::time::timeout(grace, ending).await.is_err() {
            warn!("connections were still open after {} s and are cut", grace.as_secs());
        }
        drop(self.tasks);
        if let Some(Err(error)) = self.own.as_mut().map(OwnServer::stop) {
            warn!(%error, "the server's own PostgreSQL goes on running");
        }
    }
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}

async fn serve_grpc(
    incoming: Incoming,
    sessions: Sessions,
    fleet: Fleet,
    book: Arc<Book>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<AgentServiceServer<Sessions>>().await;
    health.set_serving::<FleetServiceServer<Fleet>>().await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()?;
    session::service::transport()
        .layer(GateLayer(book))
        .add_service(sessions.service())
        .add_service(FleetServiceServer::new(fleet))
        .add_service(health_service)
        .add_service(reflection)
        .serve_with_incoming_shutdown(incoming, stop.cancelled_owned())
        .await
        .context("the gRPC server failed")
}

/// Threads that answer HTTP.
struct PageThreads(Option<Runtime>);

impl PageThreads {
    fn start() -> anyhow::Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(PAGE_THREADS).thread_name("pages").enable_all();
        Ok(Self(Some(builder.build().context("no threads for HTTP")?)))
    }
}

impl Drop for PageThreads {
    /// A runtime may not be waited for by a task of another.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

async fn serve_http(
    (listener, limits): (std::net::TcpListener, ConnectionLimits),
    certificates: Option<Arc<Certificates>>,
    shown: Pages,
    book: Arc<Book>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let incoming = Incoming::new(TcpListener::from_std(listener)?, certificates, limits);
    let pages = web::router(Shown::new(shown)).layer(axum::middleware::from_fn_with_state(book, gate::before_pages));
    web::listener::serve(incoming, pages, stop).await;
    Ok(())
}

#[cfg(test)]
mod tests;
