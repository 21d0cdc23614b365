//! The cloud of a demo: the simulated one, called by its own interface or as EC2 over HTTP.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Context;
use cloud::provider::CloudProvider;
use cloud::simulated::{ClockedCloud, FaultProfile, TokenBucket};
use controller::ClassFacts;
use simulated_ec2::{AccountSettings, Effect, FaultRule, Faults, Lag, SimulatedEc2, Throttle};
use store::lease::Scope;
use store::{Store, clock};
use tokio::net::TcpListener;
use tracing::error;

use super::cloud_ledger::CloudLedger;
use super::notices::{self, Notices};
use super::plan::{Plan, REGION};
use crate::cloud_interface::CloudInterface;
use crate::simulated_cloud;
use server::clouds::simulated_account::{self, SimulatedAccount};
use server::serve::{Server, ServerComponents};

/// Name of the queue of interruption notices.
const QUEUE: &str = "demo";

/// Name of the EKS cluster that the account is made for. The EC2NodeClasses of the demo select by it.
const EKS_CLUSTER: &str = "demo";

/// Delay until listings show a new instance, in milliseconds.
const LIST_LAG_MS: i64 = 500;

/// A cloud that boots instances within seconds, has shortages, interrupts spot instances, loses answers and throttles
/// fast callers.
pub(super) struct DemoCloud {
    cloud: Arc<ClockedCloud>,
    /// The account in front of it, if it is called as EC2.
    ec2: Option<SimulatedEc2>,
}

impl DemoCloud {
    /// The cloud that `plan` asks for.
    ///
    /// # Errors
    /// When the built-in catalogue is unreadable.
    pub(super) fn new(plan: &Plan) -> anyhow::Result<Self> {
        let cloud = Arc::new(simulated_cloud::in_process(faults(plan), REGION, None)?);
        let account = || {
            let builder = SimulatedEc2::builder(AccountSettings::new(REGION, EKS_CLUSTER));
            builder.cloud(Arc::clone(&cloud)).faults(ec2_faults(plan.seed)).build()
        };
        let ec2 = (plan.cloud == CloudInterface::Ec2).then(account);
        Ok(Self { cloud, ec2 })
    }

    /// The cloud as a server without an account uses it.
    pub(super) fn simulated(&self) -> Arc<dyn CloudProvider> {
        self.cloud.clone()
    }

    /// Starts a server on this cloud.
    ///
    /// # Errors
    /// When the server or the endpoint cannot start, or this build has no EC2.
    pub(super) async fn start_server(&self, components: ServerComponents) -> anyhow::Result<Server> {
        let Some(ec2) = &self.ec2 else { return Server::start(components).await };
        let endpoint = serve(ec2).await?;
        let settings = controller::Settings { class_facts: ClassFacts::Resolved, ..components.settings };
        let components = ServerComponents { settings, reads_interruptions: true, ..components };
        let account = SimulatedAccount { region: REGION.to_owned(), endpoint, queue: QUEUE.to_owned() };
        simulated_account::start(components, account).await
    }

    pub(super) fn ledger(&self) -> CloudLedger {
        let calls = self.ec2.as_ref().map(SimulatedEc2::calls);
        let (cloud, now) = (self.cloud.cloud(), clock::now());
        match calls {
            Some(calls) => CloudLedger::of_ec2(cloud.ledger(), &calls, now),
            None => CloudLedger::of(cloud.ledger(), now),
        }
    }

    /// Waits until the notices of the instances that are interrupted by now are recorded in `store`, within a limit.
    /// `None` without a queue.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn notices(&self, store: &dyn Store, scope: &Scope) -> anyhow::Result<Option<Notices>> {
        if self.ec2.is_none() {
            return Ok(None);
        }
        let interrupted = notices::interrupted(self.cloud.cloud().ledger(), clock::now());
        Notices::wait(store, scope, &interrupted).await.map(Some)
    }
}

/// Serves `ec2` until the process ends, and returns its address.
async fn serve(ec2: &SimulatedEc2) -> anyhow::Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("no port is free for the EC2 endpoint")?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    let served = ec2.clone();
    tokio::spawn(async move {
        if let Err(error) = served.serve(listener, std::future::pending()).await {
            error!(%error, "the EC2 endpoint failed");
        }
    });
    Ok(endpoint)
}

fn faults(plan: &Plan) -> FaultProfile {
    FaultProfile {
        seed: plan.seed,
        boot_ms: (1_000, 2_500),
        shutdown_ms: 800,
        no_capacity: plan.no_capacity,
        shortage_percent: 15,
        interrupted_percent: 10,
        interrupted_after_ms: (3_000, 6_000),
        lost_answers_percent: 3,
        calls: TokenBucket::new(40, 50),
        list_lag_ms: LIST_LAG_MS,
        ..FaultProfile::default()
    }
}

/// Lost answers, the delay of listings and throttling as calls of EC2 meet them. Shortages and interruptions are those
/// of the cloud behind it.
fn ec2_faults(seed: u64) -> Faults {
    let lost = |percent, effect| FaultRule { percent, ..FaultRule::always("CreateFleet", effect) };
    // Five a second, as in EC2. The bursts are smaller than EC2's, so that a demo meets the limit.
    let limit = |action: &str, burst| (action.to_owned(), Throttle { burst, refill_ms: 200 });
    Faults {
        seed,
        rules: vec![lost(2, Effect::CutAfter), lost(1, Effect::CutBefore)],
        throttles: BTreeMap::from([limit("CreateFleet", 4), limit("CreateLaunchTemplate", 20)]),
        lag: Lag { instances_ms: LIST_LAG_MS, ..Lag::default() },
        ..Faults::default()
    }
}
