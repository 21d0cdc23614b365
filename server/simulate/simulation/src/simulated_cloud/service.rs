//! gRPC service of the simulated cloud: delays, executes and records each call.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloud::provider::{CloudError, Owner};
use cloud::simulated::{ClockedCloud, SeededRng, TokenBucket};
use fleetwright_proto::simulation::v1;
use fleetwright_rpc::simulation::v1::simulated_cloud_service_server::SimulatedCloudService;
use futures::{Stream, StreamExt};
use model::ClusterName;
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;
use tonic::{Request, Response, Status};

use super::call_log::{CallLog, OtherLaunch};
use super::wire;
use store::clock;

/// Buffered launch updates per watcher; a slower watcher misses some.
const UPDATES_BUFFERED: usize = 4096;

/// Call delays, in milliseconds: minimum and maximum of a random value.
#[derive(Debug, Clone, Copy, Default)]
pub struct Latency {
    pub arrival_ms: (i64, i64),
    pub answer_ms: (i64, i64),
}

#[derive(Debug)]
pub(super) struct Service {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    cloud: Arc<ClockedCloud>,
    /// Position in the changes of the cloud, which another interface may advance as well.
    position: Mutex<u64>,
    latency: Mutex<(Latency, u64)>,
    rng: SeededRng,
    log: Mutex<CallLog>,
    launch_updates: broadcast::Sender<v1::LaunchCall>,
}

impl Service {
    pub(super) fn new(cloud: Arc<ClockedCloud>, latency: Latency, seed: u64) -> Self {
        let (launch_updates, _) = broadcast::channel(UPDATES_BUFFERED);
        let rng = SeededRng::new(seed).child("latency");
        let (position, log, latency) = (Mutex::default(), Mutex::default(), Mutex::new((latency, 0)));
        let shared = Shared { cloud, position, latency, rng, log, launch_updates };
        Self { shared: Arc::new(shared) }
    }

    /// Applies the events that are due.
    pub(super) fn advance_time(&self) {
        self.shared.advance_time();
    }

    /// Records a launch of another interface.
    pub(super) fn record_other(&self, launch: OtherLaunch) {
        let update = self.shared.log().record_other(launch);
        self.shared.publish(update);
    }
}

impl Shared {
    /// No code panics while it holds the lock, so a poisoned lock holds valid data.
    fn log(&self) -> MutexGuard<'_, CallLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn advance_time(&self) {
        let mut position = self.position.lock().unwrap_or_else(PoisonError::into_inner);
        let events = {
            let mut cloud = self.cloud.cloud();
            cloud.tick(clock::now());
            let (events, next) = cloud.events_since(*position);
            *position = next;
            events
        };
        if !events.is_empty() {
            self.log().record_events(&events);
        }
    }

    fn latency(&self) -> MutexGuard<'_, (Latency, u64)> {
        self.latency.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delays of the next call: (request, response).
    fn call_delays(&self) -> (Duration, Duration) {
        let mut latency = self.latency();
        latency.1 += 1;
        let rng = self.rng.child_number(latency.1);
        let wait = |name: &str, range| Duration::from_millis(rng.child(name).between(range).unsigned_abs());
        (wait("arrival", latency.0.arrival_ms), wait("answer", latency.0.answer_ms))
    }

    async fn launch(&self, request: v1::LaunchRequest) -> v1::LaunchResponse {
        let (there, back) = self.call_delays();
        self.log().count_call("Launch");
        tokio::time::sleep(there).await;
        let request = wire::read_launch_request(request);
        let outcome = self.cloud.cloud().launch(&request, clock::now());
        let instance = outcome.as_ref().ok().map(|outcome| &outcome.instance.id);
        let call = self.log().record_arrival(&request, instance);
        let number = call.number;
        self.publish(Some(call));
        tokio::time::sleep(back).await;
        let record_answer = self.log().record_answer(number);
        self.publish(record_answer);
        wire::launch_response(&outcome)
    }

    fn publish(&self, call: Option<v1::LaunchCall>) {
        if let Some(call) = call {
            // Fails only without watchers.
            let _unwatched = self.launch_updates.send(call);
        }
    }

    async fn delayed_call<T>(&self, method: &'static str, act: impl FnOnce(&Self) -> T) -> T {
        let (there, back) = self.call_delays();
        self.log().count_call(method);
        tokio::time::sleep(there).await;
        let result = act(self);
        tokio::time::sleep(back).await;
        result
    }

    /// Instances of `cluster`; of all clusters when the name is empty.
    fn list(&self, cluster: &ClusterName) -> Result<Vec<v1::Instance>, CloudError> {
        let (mut cloud, now) = (self.cloud.cloud(), clock::now());
        cloud.check_listing(now)?;
        Ok(match cluster.is_empty() {
            true => cloud.list_all(now).map(wire::instance).collect(),
            false => cloud.list(cluster, now).map(wire::instance).collect(),
        })
    }

    fn ledger_response(&self) -> v1::ReadLedgerResponse {
        self.advance_time();
        let cloud = self.cloud.cloud();
        let ledger = cloud.ledger();
        let ledger_entry = |entry: &cloud::simulated::LedgerEntry| v1::LedgerEntry {
            instance: Some(wire::instance(cloud.describe(&entry.instance.id).unwrap_or(&entry.instance))),
            token: entry.token.to_string(),
            ended_ms: entry.ended.map(|ended| ended.as_millis()),
            price_micro_usd: entry.price.map_or(0, |price| price.0),
        };
        let log = self.log();
        v1::ReadLedgerResponse {
            entries: ledger.entries().map(ledger_entry).collect(),
            launches: log.launches(),
            refused: ledger.refused,
            throttled: ledger.throttled,
            answers_lost: ledger.answers_lost,
            listings_failed: ledger.lists_failed,
            calls: log.calls(),
            now_ms: clock::now().as_millis(),
        }
    }

    /// Adds all of `instances`, or none and returns an id that is known or occurs twice.
    fn add_instances(&self, instances: Vec<v1::Instance>) -> Result<(), String> {
        let mut cloud = self.cloud.cloud();
        let mut ids = BTreeSet::new();
        for instance in &instances {
            if cloud.describe(&instance.id).is_ok() || !ids.insert(&instance.id) {
                return Err(instance.id.clone());
            }
        }
        for instance in instances {
            cloud.add_running(wire::read_instance(instance));
        }
        Ok(())
    }

    fn apply_faults(&self, wanted: &v1::SetFaultProfileRequest) {
        let span = |span: &v1::Span| (span.least, span.most);
        {
            let mut latency = self.latency();
            latency.0.arrival_ms = wanted.arrival_ms.as_ref().map_or(latency.0.arrival_ms, span);
            latency.0.answer_ms = wanted.answer_ms.as_ref().map_or(latency.0.answer_ms, span);
        }
        let mut cloud = self.cloud.cloud();
        if let Some(allowance) = &wanted.allowance {
            cloud.set_rate_limit(TokenBucket::new(allowance.burst, allowance.refill_ms));
        }
        let faults = cloud.faults_mut();
        set(&mut faults.no_capacity, wanted.no_capacity);
        set(&mut faults.shortage_percent, wanted.shortage_percent);
        set(&mut faults.interrupted_percent, wanted.interrupted_percent);
        set(&mut faults.lost_answers_percent, wanted.lost_answers_percent);
        set(&mut faults.failed_lists_percent, wanted.failed_lists_percent);
        set(&mut faults.list_lag_ms, wanted.list_lag_ms);
        set(&mut faults.ignore_tokens, wanted.ignore_tokens);
        set(&mut faults.lacking_lists_percent, wanted.lacking_lists_percent);
    }
}

fn set<T>(at: &mut T, wanted: Option<T>) {
    if let Some(wanted) = wanted {
        *at = wanted;
    }
}

/// Executes a call in its own task, so that it completes although its caller disconnects.
async fn run_detached<T: Send + 'static>(
    call: impl Future<Output = T> + Send + 'static,
) -> Result<Response<T>, Status> {
    let ended = tokio::spawn(call).await;
    ended.map(Response::new).map_err(|fault| Status::internal(format!("the simulated cloud failed: {fault}")))
}

#[tonic::async_trait]
impl SimulatedCloudService for Service {
    async fn launch(&self, request: Request<v1::LaunchRequest>) -> Result<Response<v1::LaunchResponse>, Status> {
        let shared = Arc::clone(&self.shared);
        run_detached(async move { shared.launch(request.into_inner()).await }).await
    }

    async fn terminate(
        &self,
        request: Request<v1::TerminateRequest>,
    ) -> Result<Response<v1::TerminateResponse>, Status> {
        let (shared, asked) = (Arc::clone(&self.shared), request.into_inner());
        run_detached(async move {
            let cluster = ClusterName::from(asked.cluster);
            let owner = Owner { cluster: &cluster, uid: &asked.cluster_uid };
            let terminate = |shared: &Shared| shared.cloud.cloud().terminate_owned(owner, &asked.id, clock::now());
            let ended = shared.delayed_call("Terminate", terminate).await;
            v1::TerminateResponse { failure: ended.err().as_ref().map(wire::failure) }
        })
        .await
    }

    async fn describe(&self, request: Request<v1::DescribeRequest>) -> Result<Response<v1::DescribeResponse>, Status> {
        let id = request.into_inner().id;
        let look = |shared: &Shared| match shared.cloud.cloud().describe(&id) {
            Ok(instance) => v1::DescribeResponse { instance: Some(wire::instance(instance)), failure: None },
            Err(error) => v1::DescribeResponse { instance: None, failure: Some(wire::failure(&error)) },
        };
        Ok(Response::new(self.shared.delayed_call("Describe", look).await))
    }

    async fn list(&self, request: Request<v1::ListRequest>) -> Result<Response<v1::ListResponse>, Status> {
        let cluster = ClusterName::from(request.into_inner().cluster);
        let listed = self.shared.delayed_call("List", |shared| shared.list(&cluster)).await;
        Ok(Response::new(match listed {
            Ok(instances) => v1::ListResponse { instances, failure: None },
            Err(error) => v1::ListResponse { instances: Vec::new(), failure: Some(wire::failure(&error)) },
        }))
    }

    async fn events(&self, request: Request<v1::EventsRequest>) -> Result<Response<v1::EventsResponse>, Status> {
        self.shared.advance_time();
        Ok(Response::new(self.shared.log().events_after(request.into_inner().after)))
    }

    async fn interrupt(
        &self,
        request: Request<v1::InterruptRequest>,
    ) -> Result<Response<v1::InterruptResponse>, Status> {
        let asked = request.into_inner();
        let kind = wire::read_interruption(asked.kind());
        let announced = self.shared.cloud.cloud().interrupt(&asked.id, kind, clock::now());
        Ok(Response::new(v1::InterruptResponse { announced }))
    }

    async fn add_instances(
        &self,
        request: Request<v1::AddInstancesRequest>,
    ) -> Result<Response<v1::AddInstancesResponse>, Status> {
        let added = self.shared.add_instances(request.into_inner().instances);
        let known = |id| Status::already_exists(format!("instance {id} is known to the simulated cloud already"));
        added.map(|()| Response::new(v1::AddInstancesResponse {})).map_err(known)
    }

    async fn read_ledger(&self, _: Request<v1::ReadLedgerRequest>) -> Result<Response<v1::ReadLedgerResponse>, Status> {
        Ok(Response::new(self.shared.ledger_response()))
    }

    async fn set_fault_profile(
        &self,
        request: Request<v1::SetFaultProfileRequest>,
    ) -> Result<Response<v1::SetFaultProfileResponse>, Status> {
        self.shared.apply_faults(request.get_ref());
        Ok(Response::new(v1::SetFaultProfileResponse {}))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::WatchResponse, Status>> + Send>>;

    async fn watch(&self, _: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let launch_updates = BroadcastStream::new(self.shared.launch_updates.subscribe());
        // Updates that a slow watcher has missed are in the ledger.
        let shown = launch_updates
            .filter_map(|update| async { update.ok().map(|launch| Ok(v1::WatchResponse { launch: Some(launch) })) });
        Ok(Response::new(shown.boxed()))
    }
}
