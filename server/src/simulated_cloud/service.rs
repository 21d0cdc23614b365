//! The calls: each takes its time, does what the cloud does, and leaves its trace.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloud::provider::{CloudError, Instance, Owner};
use cloud::simulated::{Bucket, ClockedCloud, SeededRng};
use fleetwright_proto::simulation::v1;
use fleetwright_proto::simulation::v1::simulated_cloud_service_server::SimulatedCloudService;
use futures::{Stream, StreamExt};
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;
use tonic::{Request, Response, Status};

use super::Latency;
use super::log::Log;
use crate::clock;
use crate::clouds::wire;

/// Moves of launches that a watcher may be behind; one that is further behind misses some.
const MOVES_BEHIND: usize = 4096;

/// The cloud behind its calls.
#[derive(Debug)]
pub(super) struct Service {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    cloud: ClockedCloud,
    latency: Mutex<(Latency, u64)>,
    dice: SeededRng,
    log: Mutex<Log>,
    moves: broadcast::Sender<v1::LaunchCall>,
}

impl Service {
    pub(super) fn new(cloud: ClockedCloud, latency: Latency, seed: u64) -> Self {
        let (moves, _) = broadcast::channel(MOVES_BEHIND);
        let dice = SeededRng::new(seed).child("latency");
        let shared = Shared { cloud, latency: Mutex::new((latency, 0)), dice, log: Mutex::default(), moves };
        Self { shared: Arc::new(shared) }
    }

    /// What is due happens.
    pub(super) fn let_time_pass(&self) {
        self.shared.let_time_pass();
    }
}

impl Shared {
    /// No code panics while it holds the lock, so a poisoned lock guards a whole log.
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn let_time_pass(&self) {
        let events = self.cloud.cloud().tick(clock::now());
        if !events.is_empty() {
            self.log().happened(&events);
        }
    }

    fn latency(&self) -> MutexGuard<'_, (Latency, u64)> {
        self.latency.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the next call takes, there and back.
    fn journey(&self) -> (Duration, Duration) {
        let mut latency = self.latency();
        latency.1 += 1;
        let die = self.dice.child_number(latency.1);
        let wait = |name: &str, range| Duration::from_millis(die.child(name).between(range).unsigned_abs());
        (wait("arrival", latency.0.arrival_ms), wait("answer", latency.0.answer_ms))
    }

    async fn launch(&self, request: v1::LaunchRequest) -> v1::LaunchResponse {
        let (there, back) = self.journey();
        self.log().called("Launch");
        tokio::time::sleep(there).await;
        let request = wire::read_launch_request(request);
        let outcome = self.cloud.cloud().launch(&request, clock::now());
        let instance = outcome.as_ref().ok().map(|outcome| &outcome.instance.id);
        let call = self.log().arrived(&request, instance);
        let number = call.number;
        self.tell(Some(call));
        tokio::time::sleep(back).await;
        let answered = self.log().answered(number);
        self.tell(answered);
        wire::launch_response(&outcome)
    }

    fn tell(&self, call: Option<v1::LaunchCall>) {
        if let Some(call) = call {
            // Nobody need be watching.
            let _unwatched = self.moves.send(call);
        }
    }

    async fn ask<T>(&self, method: &'static str, act: impl FnOnce(&Self) -> T) -> T {
        let (there, back) = self.journey();
        self.log().called(method);
        tokio::time::sleep(there).await;
        let result = act(self);
        tokio::time::sleep(back).await;
        result
    }

    fn list(&self, cluster: &str) -> Result<Vec<v1::Instance>, CloudError> {
        let (mut cloud, now) = (self.cloud.cloud(), clock::now());
        cloud.admit_list(now)?;
        let of_cluster = |instance: &&Instance| cluster.is_empty() || instance.cluster.as_ref() == cluster;
        Ok(cloud.list_all(now).filter(of_cluster).map(wire::instance).collect())
    }

    fn book(&self) -> v1::BookResponse {
        self.let_time_pass();
        let cloud = self.cloud.cloud();
        let book = cloud.book();
        let sale = |entry: &cloud::simulated::LedgerEntry| v1::Sale {
            instance: Some(wire::instance(cloud.describe(&entry.instance.id).unwrap_or(&entry.instance))),
            token: entry.token.to_string(),
            ended_ms: entry.ended.map(|ended| ended.0),
            price_micro_usd: entry.price.map_or(0, |price| price.0),
        };
        let log = self.log();
        v1::BookResponse {
            sales: book.entries().map(sale).collect(),
            launches: log.launches(),
            refused: book.refused,
            throttled: book.throttled,
            answers_lost: book.answers_lost,
            listings_failed: book.lists_failed,
            calls: log.calls(),
            now_ms: clock::now().0,
        }
    }

    fn change_weather(&self, wish: &v1::WeatherRequest) {
        let span = |span: &v1::Span| (span.least, span.most);
        {
            let mut latency = self.latency();
            latency.0.arrival_ms = wish.arrival_ms.as_ref().map_or(latency.0.arrival_ms, span);
            latency.0.answer_ms = wish.answer_ms.as_ref().map_or(latency.0.answer_ms, span);
        }
        let mut cloud = self.cloud.cloud();
        if let Some(allowance) = &wish.allowance {
            cloud.set_allowance(Bucket::new(allowance.burst, allowance.refill_ms));
        }
        let weather = cloud.weather_mut();
        set(&mut weather.no_capacity, wish.no_capacity);
        set(&mut weather.shortage_percent, wish.shortage_percent);
        set(&mut weather.interrupted_percent, wish.interrupted_percent);
        set(&mut weather.lost_answers_percent, wish.lost_answers_percent);
        set(&mut weather.failed_lists_percent, wish.failed_lists_percent);
        set(&mut weather.list_lag_ms, wish.list_lag_ms);
        set(&mut weather.ignore_tokens, wish.ignore_tokens);
        set(&mut weather.lacking_lists_percent, wish.lacking_lists_percent);
    }
}

fn set<T>(at: &mut T, wish: Option<T>) {
    if let Some(wish) = wish {
        *at = wish;
    }
}

/// Carries a call out in a task of its own: one that is on its way arrives, although its caller has gone.
async fn carried_out<T: Send + 'static>(call: impl Future<Output = T> + Send + 'static) -> Result<Response<T>, Status> {
    let ended = tokio::spawn(call).await;
    ended.map(Response::new).map_err(|fault| Status::internal(format!("the simulated cloud failed: {fault}")))
}

#[tonic::async_trait]
impl SimulatedCloudService for Service {
    async fn launch(&self, request: Request<v1::LaunchRequest>) -> Result<Response<v1::LaunchResponse>, Status> {
        let shared = Arc::clone(&self.shared);
        carried_out(async move { shared.launch(request.into_inner()).await }).await
    }

    async fn terminate(
        &self,
        request: Request<v1::TerminateRequest>,
    ) -> Result<Response<v1::TerminateResponse>, Status> {
        let (shared, asked) = (Arc::clone(&self.shared), request.into_inner());
        carried_out(async move {
            let owner = Owner { cluster: &asked.cluster, uid: &asked.cluster_uid };
            let terminate = |shared: &Shared| shared.cloud.cloud().terminate_of(owner, &asked.id, clock::now());
            let ended = shared.ask("Terminate", terminate).await;
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
        Ok(Response::new(self.shared.ask("Describe", look).await))
    }

    async fn list(&self, request: Request<v1::ListRequest>) -> Result<Response<v1::ListResponse>, Status> {
        let cluster = request.into_inner().cluster;
        let listed = self.shared.ask("List", |shared| shared.list(&cluster)).await;
        Ok(Response::new(match listed {
            Ok(instances) => v1::ListResponse { instances, failure: None },
            Err(error) => v1::ListResponse { instances: Vec::new(), failure: Some(wire::failure(&error)) },
        }))
    }

    async fn events(&self, request: Request<v1::EventsRequest>) -> Result<Response<v1::EventsResponse>, Status> {
        self.shared.let_time_pass();
        Ok(Response::new(self.shared.log().events_after(request.into_inner().after)))
    }

    async fn interrupt(
        &self,
        request: Request<v1::InterruptRequest>,
    ) -> Result<Response<v1::InterruptResponse>, Status> {
        let announced = self.shared.cloud.cloud().interrupt(&request.into_inner().id, clock::now());
        Ok(Response::new(v1::InterruptResponse { announced }))
    }

    async fn book(&self, _: Request<v1::BookRequest>) -> Result<Response<v1::BookResponse>, Status> {
        Ok(Response::new(self.shared.book()))
    }

    async fn weather(&self, request: Request<v1::WeatherRequest>) -> Result<Response<v1::WeatherResponse>, Status> {
        self.shared.change_weather(request.get_ref());
        Ok(Response::new(v1::WeatherResponse {}))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::WatchResponse, Status>> + Send>>;

    async fn watch(&self, _: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let moves = BroadcastStream::new(self.shared.moves.subscribe());
        // Moves that a slow watcher has missed stand in the book.
        let shown =
            moves.filter_map(|moved| async { moved.ok().map(|launch| Ok(v1::WatchResponse { launch: Some(launch) })) });
        Ok(Response::new(shown.boxed()))
    }
}
