//! Assembly of the server: listeners, control loop, and ordered shutdown.

pub(crate) mod loops;
mod regions;
mod shutdown;

pub(crate) use regions::CloudRegion;
pub use regions::RegionComponents;
pub use shutdown::shutdown_signal;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use cloud::provider::CloudProvider;
use controller::disruption_allowance::DisruptionShare;
use controller::search_allowance::SearchSettings;
use controller::{ClassFacts, DisruptionOutcome, DisruptionRequest, NewPlanner, PlanError, PlanOutcome, Planner};
use field_mask::FieldMaskLayer;
use fleetwright_proto::DESCRIPTOR_SET;
use fleetwright_rpc::v1::agent_service_server::AgentServiceServer;
use fleetwright_rpc::v1::capacity_service_server::CapacityServiceServer;
use fleetwright_rpc::v1::fleet_service_server::FleetServiceServer;
use manifests::Source;
use model::Millis;
use model::input::{PlanningInput, Policy};
use planner::{CompileCache, FailedChecks};
use prost::Message;
use prost_types::FileDescriptorSet;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::agent_service::{Routes, Sessions};
use crate::browser_sessions;
use crate::pools::PublishedCatalogue;
use crate::process_metrics::ProcessMetrics;
use crate::replicas::{self, Replicas};
use crate::stores::{self, health, retention};
use agent_session::SessionMemory;
use auth::authorizer::Authorizer;
use auth::connections::ConnectionLimits;
use auth::middleware::AuthLayer;
use auth::tls::{Certificates, Incoming};
use dashboard::Pages;
use fleet_api::background_runtime::BackgroundRuntime;
use fleet_api::capacity::error_info::ErrorInfoLayer;
use fleet_api::capacity::estimates::Estimates;
use fleet_api::capacity::threads::CapacityThreads;
use fleet_api::capacity::{CapacityApi, learning};
use fleet_api::conditions::Conditions;
use fleet_api::fleet::change_feed::{self, KnownFreezes, Topic};
use fleet_api::fleet::directory::Directory;
use fleet_api::fleet::replica_clients::{self, ReplicaClients};
use fleet_api::fleet::{FleetApi, summaries};
use fleet_api::questions::{self, Delivery};
use fleet_api::views::publisher::ViewPublisher;
use fleet_api::views::{self, ResourceChanges};
use loops::{Common, Inbox, Loops};
use metrics::histogram;
use server_settings::{ClusterRules, Config, ControlConfig, LeaseConfig, StoreConfig};
use store::lease::Scope;
use store::log::Retention;
use store::replicas::{ReplicaEndpoint, ReplicaRow};
use store::{Store, clock};
use store_postgres::postgres_local::LocalPostgres;

/// Buffered session events; when it is full, agents get backpressure.
const EVENTS_WAITING: usize = 1024;

/// Threads for HTTP: two, so that a large response does not delay a health check.
const PAGE_THREADS: usize = 2;

pub struct ServerComponents {
    pub grpc: SocketAddr,
    /// Where other replicas reach the gRPC listener; `None` for its own address, unless that is unspecified.
    pub advertised: Option<String>,
    /// Address of the HTTP listener.
    pub http: SocketAddr,
    pub authorizer: Authorizer,
    /// TLS certificates; `None` disables TLS.
    pub certificates: Option<Arc<Certificates>>,
    pub store: Arc<dyn Store>,
    /// The local PostgreSQL behind the store, if any.
    pub own: Option<LocalPostgres>,
    pub retention: Retention,
    /// Accounts and regions, in the order of the entries that `rules` number; at least one.
    pub regions: Vec<RegionComponents>,
    /// Which account and region each cluster belongs to.
    pub rules: ClusterRules,
    pub settings: controller::Settings,
    /// Makes the planner of each planning thread.
    pub planner: NewPlanner,
    pub lease: LeaseConfig,
    /// Memory accounting for objects of agents.
    pub session_memory: SessionMemory,
    /// Whether the cloud is simulated, so that no instance is bought.
    pub simulated: bool,
    /// Whether notices about instances come from the store, where a queue's receiver puts them, and not from the cloud.
    pub reads_interruptions: bool,
    /// Catalogue that overrides the built-in one.
    pub catalogue: Option<Source>,
    /// Digests of the settings that all replicas of one database should share.
    pub shared: BTreeMap<String, String>,
    /// Whether what the server depends on works.
    pub conditions: Arc<Conditions>,
}

pub struct Server {
    pub grpc: SocketAddr,
    /// Address of the HTTP listener.
    pub http: SocketAddr,
    is_encrypted: bool,
    sessions: Sessions,
    /// Stops the control loops, and is cancelled when all have ended.
    deciding: (CancellationToken, CancellationToken),
    stop: CancellationToken,
    tasks: JoinSet<anyhow::Result<()>>,
    /// Pages and health checks run on threads of their own, so that no cluster's work delays them.
    _pages: BackgroundRuntime,
    own: Option<LocalPostgres>,
}

/// Runs the server from `starting` until a shutdown signal; open connections then have `grace` to
/// end.
///
/// # Errors
/// A component could not start or failed.
pub(crate) async fn until_stopped(
    starting: impl Future<Output = anyhow::Result<Server>>,
    grace: Duration,
) -> anyhow::Result<()> {
    let stop = shutdown_signal();
    tokio::pin!(stop);
    let mut server = tokio::select! {
        started = starting => started?,
        () = &mut stop => return Ok(()),
    };
    let scheme = if server.is_encrypted { "https" } else { "http" };
    info!(
        grpc = %format_args!("{scheme}://{}", server.grpc),
        dashboard = %format_args!("{scheme}://{}/", server.http),
        "serving"
    );
    let ended = tokio::select! {
        () = &mut stop => Ok(()),
        ended = server.broken() => ended,
    };
    info!("shutting down");
    server.stop(grace).await;
    ended
}

/// Starts a server with `config` and `cloud`, whose threads plan by `planner`: [`new_planner`] outside tests.
///
/// # Errors
/// A component could not start.
pub async fn start(
    config: Config,
    catalogue: Option<Source>,
    cloud: Arc<dyn CloudProvider>,
    planner: NewPlanner,
) -> anyhow::Result<Server> {
    let connect = async |_: &Arc<dyn Store>, _: &[CloudRegion]| vec![cloud];
    Server::start(ServerComponents { planner, ..components(config, catalogue, connect).await? }).await
}

/// Opens what a server with `config` needs, and the clouds that `connect` makes for the store and each account and region.
///
/// # Errors
/// A certificate, the trust file or the store could not be opened.
pub(crate) async fn components(
    config: Config,
    catalogue: Option<Source>,
    connect: impl AsyncFnOnce(&Arc<dyn Store>, &[CloudRegion]) -> Vec<Arc<dyn CloudProvider>>,
) -> anyhow::Result<ServerComponents> {
    note_gates_without_effect(&config.control);
    // What a configuration can have wrong stops the start before a store is opened or made, and before a listener opens.
    let certificates = config.listen.tls.clone().map(Certificates::read).transpose()?;
    let certificates = certificates.map(Arc::new);
    let authorizer = config.listen.trust.clone().map_or_else(|| Ok(Authorizer::allow_all()), Authorizer::read)?;
    ensure_free("listen.grpc", config.listen.grpc).and_then(|()| ensure_free("listen.http", config.listen.http))?;
    let (store, own) = stores::open_store(&config).await?;
    let (regions, rules) = regions::configured(&config.cloud, &config.lease);
    let clouds = connect(&store, &regions).await;
    let is_simulated = config.cloud.is_simulated();
    let reread_window = (!is_simulated).then(|| config.cloud.refresh.shortest()).flatten();
    let regions = regions.into_iter().zip(clouds).map(|(CloudRegion { scope, entry }, cloud)| RegionComponents {
        scope,
        cloud,
        interruption_queue: entry.interruption_queue,
        published: reread_window.map(PublishedCatalogue::new),
    });
    Ok(ServerComponents {
        grpc: config.listen.grpc,
        advertised: config.listen.advertised,
        http: config.listen.http,
        authorizer: authorizer.with_authorities(certificates.clone()),
        certificates,
        store,
        own,
        retention: retention(&config.store),
        regions: regions.collect(),
        rules,
        planner: new_planner,
        settings: controller::Settings {
            policy: Policy {
                preferences: config.control.preferences,
                min_values: config.control.min_values,
                step_limit: config.control.plan_steps,
                preferred_terms: config.control.preferred_terms,
                ..policy()
            },
            batch_idle: clock::millis(config.control.batch_idle),
            batch_max: clock::millis(config.control.batch_max),
            plan_pods: usize::try_from(config.control.plan_pods).unwrap_or(usize::MAX),
            search: SearchSettings::with_share(config.control.search_cpu, processors()),
            open_together: clock::millis(config.control.open_together),
            feature_gates: config.control.feature_gates,
            disruption: config.disruption,
            disruption_pass_interval: config.disruption_pass_interval,
            consolidation: config.consolidation,
            disruption_share: DisruptionShare::of(config.disruption_cpu, processors()),
            guardrails: config.guardrails,
            gc_after: gc_after(&config.control),
            hold_after_external_scale_up: clock::millis(config.control.hold_after_external_scale_up),
            schedulers: config.control.schedulers,
            class_facts: if is_simulated { ClassFacts::Simulated } else { ClassFacts::Resolved },
            ..settings()
        },
        lease: config.lease,
        session_memory: config.session_memory,
        simulated: is_simulated,
        reads_interruptions: !is_simulated,
        catalogue,
        shared: config.shared,
        conditions: Arc::default(),
    })
}

fn note_gates_without_effect(control: &ControlConfig) {
    for (gate, why) in control.feature_gates.without_effect() {
        info!(gate, why, "feature gate without effect");
    }
}

/// The listeners open last, when the server can answer: an address that another process has is found before a database is made.
fn ensure_free(key: &str, address: SocketAddr) -> anyhow::Result<()> {
    std::net::TcpListener::bind(address)
        .map(drop)
        .with_context(|| format!("cannot listen on {address}: free the address or set {key} to another one"))
}

fn retention(config: &StoreConfig) -> Retention {
    Retention {
        log: config.keep_log,
        ended: config.keep_ended,
        clusters: config.keep_clusters,
        costs: config.keep_costs,
    }
}

/// Settings that every controller of this binary shares.
pub fn settings() -> controller::Settings {
    let now = clock::now().as_millis().unsigned_abs();
    // Each `RandomState` has random keys from the operating system.
    let random = RandomState::new().hash_one(now);
    controller::Settings {
        policy: policy(),
        // A process issues fewer than 4096 numbers per millisecond, so numbers grow across
        // restarts; two processes that start in the same millisecond have random offsets.
        first_number: now.saturating_mul(4096) | (random & 4095),
        identity: random,
        ..controller::Settings::default()
    }
}

/// The planning policy of a server: every label that Karpenter knows is known, and placed pods are
/// nominated for their nodes.
pub fn policy() -> Policy {
    Policy { well_known_labels: manifests::karpenter::well_known_labels(), nominations: true, ..Policy::default() }
}

/// Number of processors that this process may use.
fn processors() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// Garbage collection delay; `None` when garbage collection is disabled.
fn gc_after(config: &ControlConfig) -> Option<Millis> {
    Some(clock::millis(config.collect_after)).filter(|after| *after > Millis::ZERO)
}

/// Logs and counts plans that failed the plan verifier, which is a scheduler bug.
fn report_failed_checks(failed: &FailedChecks) {
    let Some(first) = failed.violations.first() else { return };
    histogram::PLANS_FAILING_CHECK.add(u64::from(failed.count + failed.refused));
    warn!(
        plans = failed.count + failed.refused,
        pods_left_out = failed.left_out.len(),
        violation = %first,
        "plan failed the plan verifier"
    );
}

/// A planner of the control loop; the same as in `fleetwright plan`.
pub fn new_planner() -> Planner {
    let (mut cache, mut of_disruption) = (CompileCache::default(), CompileCache::default());
    Planner {
        pods: Box::new(move |input| plan(input, &mut cache)),
        disruption: Box::new(move |input, request| plan_disruption(input, request, &mut of_disruption)),
    }
}

fn plan_disruption(input: &PlanningInput, request: &DisruptionRequest, cache: &mut CompileCache) -> DisruptionOutcome {
    let planned = disruption::plan(input, &request.running, &request.settings, cache).map_err(PlanError::Rejected)?;
    for refused in &planned.refused {
        error!(%refused, "disruption plan cut by verifier");
    }
    Ok(planned)
}

fn plan(input: &PlanningInput, cache: &mut CompileCache) -> PlanOutcome {
    let decision = planner::plan_with(input, cache).map_err(PlanError::Rejected)?;
    report_failed_checks(&decision.failed_checks);
    Ok((decision.plan, decision.report))
}

/// Tells the control loops the freezes, before any agent connects.
async fn send_freezes(store: &dyn Store, loops: &[mpsc::Sender<Delivery>]) -> anyhow::Result<KnownFreezes> {
    let mut freezes = KnownFreezes::new();
    let frozen = change_feed::read_freezes(store, &mut freezes).await?;
    ensure!(change_feed::send_to_all(loops, &frozen).await, "a control loop has ended");
    Ok(freezes)
}

/// Follows the changes that other replicas make, each topic in a task of its own: orders of operators for all control
/// loops, and the unavailable offerings of each account and region for its own.
fn follow_changes(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    (scopes, known): (Vec<Scope>, KnownFreezes),
    store: &Arc<dyn Store>,
    loops: &[mpsc::Sender<Delivery>],
    stop: &CancellationToken,
) {
    let operators = [
        Topic::Freezes { known },
        Topic::Holds { known: BTreeSet::new() },
        Topic::Releases { known: None },
        Topic::Confirmations { known: None },
    ];
    let of_all = operators.into_iter().map(|topic| (topic, loops.to_vec()));
    let of_each =
        scopes.into_iter().zip(loops).map(|(scope, events)| (Topic::Offerings { scope }, vec![events.clone()]));
    for (topic, loops) in of_all.chain(of_each) {
        tasks.spawn(change_feed::follow(topic, Arc::clone(store), loops, stop.clone()));
    }
}

/// What this process tells the other replicas about itself.
fn replica_row(
    owner: String,
    settings: &controller::Settings,
    shared: BTreeMap<String, String>,
    endpoint: ReplicaEndpoint,
) -> ReplicaRow {
    ReplicaRow { instance: format!("{owner}/{:x}", settings.identity), owner, settings: shared, endpoint }
}

/// Where other replicas reach a listener at `address`; empty if no address is known that is not local to this host.
fn advertised_address(configured: Option<String>, address: SocketAddr) -> String {
    configured.unwrap_or_else(|| if address.ip().is_unspecified() { String::new() } else { address.to_string() })
}

/// Watches the health of the store, and prunes it.
fn watch_store(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    fleet: &FleetApi,
    retention: Retention,
    stop: &CancellationToken,
) {
    let (store, conditions) = (&fleet.store, Arc::clone(&fleet.conditions));
    tasks.spawn(health::run(Arc::clone(store), fleet.instance.to_string(), conditions, stop.clone()));
    let first = retention::first_wait(RandomState::new().hash_one(std::process::id()));
    tasks.spawn(retention::run(Arc::clone(store), retention, first, stop.clone()));
}

/// Follows the other replicas, and the summaries of clusters in the store. When it returns, all clusters of the store are
/// known. This replica is registered first: only then does it see the others.
async fn follow_replicas(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    fleet: &FleetApi,
    own: &ReplicaRow,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    if let Err(error) = fleet.store.register_replica(own).await {
        warn!(%error, "cannot register this replica; retrying");
    }
    let (store, directory) = (Arc::clone(&fleet.store), Arc::clone(&fleet.directory));
    let (instance, clients) = (fleet.instance.to_string(), fleet.replicas.clone());
    tasks.spawn(replica_clients::run(store, instance, clients, directory, stop.clone()));
    Ok(summaries::follow(tasks, &fleet.store, &fleet.directory, stop).await?)
}

/// Starts the threads of quotes, and the task that teaches them what becomes of launches in `regions`.
fn start_capacity(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    fleet: &FleetApi,
    regions: Vec<learning::TaughtRegion>,
    stop: &CancellationToken,
) -> anyhow::Result<CapacityApi> {
    let estimates = Arc::<Estimates>::default();
    let capacity = CapacityApi::new(fleet.clone(), CapacityThreads::start(&estimates)?);
    tasks.spawn(learning::run(Arc::clone(&fleet.store), fleet.instance.to_string(), regions, estimates, stop.clone()));
    Ok(capacity)
}

/// Settings of the sessions of agents, which send their spans if this server exports traces.
fn session_settings(session_memory: SessionMemory) -> agent_session::Settings {
    agent_session::Settings { session_memory, traces: telemetry::exporter().is_some(), ..Default::default() }
}

impl Server {
    /// Opens the listeners and starts every task.
    ///
    /// # Errors
    /// A listener or thread could not start, or the store failed.
    pub async fn start(components: ServerComponents) -> anyhow::Result<Self> {
        let (grpc_listener, http_listener) = (listen(components.grpc).await?, listen(components.http).await?);
        let (grpc, http) = (grpc_listener.local_addr()?, http_listener.local_addr()?);
        let [grpc_limits, http_limits] = ConnectionLimits::of_this_process();
        let is_encrypted = components.certificates.is_some();
        let incoming = Incoming::new(grpc_listener, components.certificates.clone(), grpc_limits);
        let (publisher, views) = views::channel();
        let token = auth::token::random()?;
        let authorizer = browser_sessions::authorizer(components.authorizer, &token, &components.store);
        let address = advertised_address(components.advertised, grpc);
        let certificate = components.certificates.as_ref().map(|one| one.digest()).unwrap_or_default();
        let endpoint = ReplicaEndpoint { address, token, certificate };
        let scopes: Vec<Scope> = components.regions.iter().map(|region| region.scope.clone()).collect();
        let (events, inboxes): (Vec<_>, Vec<_>) = scopes.iter().map(|_| mpsc::channel(EVENTS_WAITING)).unzip();
        let catalogue = (components.catalogue, components.settings.class_facts);
        let routes = Routes::new(components.rules.clone(), regions::routes(&components.regions, &events, catalogue));
        let freezes = send_freezes(&*components.store, &events).await?;
        let sessions = Sessions::new(session_settings(components.session_memory), routes, Arc::clone(&authorizer));
        let (questions, asked) = questions::channels(components.rules, scopes.len());
        let stop = CancellationToken::new();
        let deciding = (CancellationToken::new(), CancellationToken::new());
        let owner = components.lease.owner.clone();
        let replica = replica_row(owner.clone(), &components.settings, components.shared, endpoint);
        let replicas = Arc::new(Replicas::default());
        let common = Common {
            planner: components.planner,
            settings: components.settings,
            sessions: sessions.clone(),
            store: Arc::clone(&components.store),
            lease: components.lease,
            reads_interruptions: components.reads_interruptions,
            conditions: Arc::clone(&components.conditions),
        };
        let (directory, changes) = (Arc::<Directory>::default(), Arc::<ResourceChanges>::default());
        let publisher = ViewPublisher::new(publisher, &directory, &changes);
        let mut tasks = JoinSet::new();
        let inboxes = inboxes.into_iter().zip(asked).map(|(events, questions)| Inbox { events, questions });
        let loops = components.regions.into_iter().zip(inboxes);
        let Loops { fleet: fleet_state, regions, heartbeats, latencies } =
            loops::start(common, loops, publisher, &mut tasks, &deciding)?;
        follow_changes(&mut tasks, (scopes.clone(), freezes), &components.store, &events, &stop);
        drop(events);
        let fleet = FleetApi {
            instance: replica.instance.as_str().into(),
            owner: owner.into(),
            views,
            changes,
            directory,
            shared_answers: Arc::default(),
            replicas: ReplicaClients::new(Arc::clone(&components.conditions)),
            store: components.store,
            conditions: components.conditions,
            questions,
            scopes: scopes.into(),
            simulated: components.simulated,
        };
        watch_store(&mut tasks, &fleet, components.retention, &stop);
        follow_replicas(&mut tasks, &fleet, &replica, &stop).await?;
        let capacity = start_capacity(&mut tasks, &fleet, regions, &stop)?;
        let registered = (replica, components.certificates.clone());
        tasks.spawn(replicas::run(Arc::clone(&fleet.store), registered, Arc::clone(&replicas), stop.clone()));
        tasks.spawn(Arc::clone(&authorizer).watch_files(stop.clone()));
        tasks.spawn(serve_grpc(incoming, sessions.clone(), capacity.clone(), Arc::clone(&authorizer), stop.clone()));
        let pages = BackgroundRuntime::start("pages", PAGE_THREADS, None).context("no threads for HTTP")?;
        let page_data = ProcessMetrics { fleet: fleet_state, latencies, heartbeats, replicas }.pages(capacity);
        let listener = (http_listener.into_std()?, http_limits);
        let served = pages.spawn(serve_http(listener, components.certificates, page_data, authorizer, stop.clone()));
        tasks.spawn(async move { served.await.context("the HTTP server failed")? });
        Ok(Self { grpc, http, is_encrypted, sessions, deciding, stop, tasks, _pages: pages, own: components.own })
    }

    /// Runs a task until the server stops. The server ends when the task does.
    #[cfg(feature = "ec2")]
    pub(crate) fn run_beside<F>(&mut self, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.tasks.spawn(task(self.stop.clone()));
    }

    /// Completes when a task has failed.
    ///
    /// # Errors
    /// Always: the failure.
    pub async fn broken(&mut self) -> anyhow::Result<()> {
        let ended = tokio::select! {
            ended = self.tasks.join_next() => ended,
            fault = self.sessions.task_failed() => return Err(anyhow!(fault)),
        };
        match ended {
            Some(Ok(Err(error))) => Err(error),
            Some(Err(fault)) => Err(anyhow!("a task of the server failed: {fault}")),
            Some(Ok(Ok(()))) | None => Err(anyhow!("a task of the server ended by itself")),
        }
    }

    /// Shuts down in order: the control loop first, which releases its leases, then sessions
    /// (agents reconnect to the new lease holders), then connections. Each step takes at most
    /// `grace`.
    pub async fn stop(mut self, grace: Duration) {
        let (stop_deciding, decided) = &self.deciding;
        stop_deciding.cancel();
        if tokio::time::timeout(grace, decided.cancelled()).await.is_err() {
            warn!("control loops did not end within grace; leases will expire");
        }
        self.stop.cancel();
        let ending = async {
            self.sessions.stop().await;
            while self.tasks.join_next().await.is_some() {}
        };
        if tokio::time::timeout(grace, ending).await.is_err() {
            warn!(grace_s = grace.as_secs(), "closing connections that are still open");
        }
        drop(self.tasks);
        if let Some(Err(error)) = self.own.as_mut().map(LocalPostgres::stop) {
            warn!(%error, "cannot stop local PostgreSQL; it keeps running");
        }
    }
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}

async fn serve_grpc(
    incoming: Incoming,
    sessions: Sessions,
    capacity: CapacityApi,
    authorizer: Arc<Authorizer>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let fleet = capacity.fleet.clone();
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<AgentServiceServer<Sessions>>().await;
    health.set_serving::<CapacityServiceServer<CapacityApi>>().await;
    health.set_serving::<FleetServiceServer<FleetApi>>().await;
    let error_details = error_details()?;
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .register_file_descriptor_set(error_details.clone())
    };
    crate::agent_service::transport()
        .layer(ErrorInfoLayer)
        .layer(AuthLayer(authorizer))
        .layer(FieldMaskLayer::new(DESCRIPTOR_SET)?)
        .add_service(sessions.service())
        .add_service(capacity.service())
        .add_service(FleetServiceServer::new(fleet))
        .add_service(health_service)
        .add_service(reflection().build_v1()?)
        // Older clients, such as grpcio-reflection, know the alpha version only.
        .add_service(reflection().build_v1alpha()?)
        .serve_with_incoming_shutdown(incoming, stop.cancelled_owned())
        .await
        .context("the gRPC server failed")
}

/// The details of errors, which no method names, under the paths by which clients import them. tonic-types has them without
/// a folder.
fn error_details() -> anyhow::Result<FileDescriptorSet> {
    let mut set = FileDescriptorSet::decode(tonic_types::pb::FILE_DESCRIPTOR_SET).context("the details of errors")?;
    for name in set.file.iter_mut().filter_map(|file| file.name.as_mut()).filter(|name| !name.contains('/')) {
        name.insert_str(0, "google/rpc/");
    }
    Ok(set)
}

async fn serve_http(
    (listener, limits): (std::net::TcpListener, ConnectionLimits),
    certificates: Option<Arc<Certificates>>,
    pages: Pages,
    authorizer: Arc<Authorizer>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let incoming = Incoming::new(TcpListener::from_std(listener)?, certificates, limits);
    let router = dashboard::router(pages, &authorizer)?;
    dashboard::listener::serve(incoming, router, stop).await;
    Ok(())
}

#[cfg(test)]
mod tests;
